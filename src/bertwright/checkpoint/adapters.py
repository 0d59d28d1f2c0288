"""How the folders of each layout are opened: one adapter a layout.

| layout | weights | configuration |
|---|---|---|
| `huggingface` | `model.safetensors`, or shards with an index | `config.json` |
| `tensorflow` | `NAME.index`, `NAME.data-*` | `bert_config.json`, else `config.json` |

A source is a folder, or a TensorFlow checkpoint by its name without `.index`. An adapter opens
files; what their tensors are called is the `Layout` of the model (`models/layout.py`). Our own
checkpoints have the layout `huggingface`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bertwright.models.bert import tensorflow
from bertwright.models.bert.huggingface import activation_of
from bertwright.models.catalogue import system_of_config, system_of_folder, system_that
from bertwright.models.system import System
from bertwright.storage import model_folder
from bertwright.storage.model_folder import CONFIG, INDEX, WEIGHTS, Header, read_json
from bertwright.storage.tensor_bundle import BundleEntry, read_tensor

AnyHeader = Header | BundleEntry
Headers = Mapping[str, AnyHeader]
"""Name -> file, shape and type."""


class Adapter(ABC):
    """Opens the folders of one layout."""

    name: str
    """As `bertwright inspect` calls it."""

    @abstractmethod
    def is_one(self, source: Path) -> bool:
        """Return whether the weights of a source have this layout."""

    @abstractmethod
    def config_file(self, source: Path) -> Path:
        """Return the path of the configuration, which may be missing."""

    def config(self, source: Path) -> Any:
        """Return the configuration of a model, of the class that its system has.

        Raises:
            DataError: no configuration, or one of a model that is not read.
        """
        path = self.config_file(source)
        content = read_json(path)
        return system_of_folder(content, path).names.read_config(content, path)

    def system(self, source: Path, config: Any) -> System:
        """Return the system of a model, with the names of tensors that this layout has.

        Raises:
            ConfigError: the layout has no models of this configuration.
        """
        return system_of_config(config)

    @abstractmethod
    def weight_files(self, source: Path) -> list[Path]:
        """Return the files that the weights are read from, without heads in a file of their own.

        Raises:
            DataError, IntegrityError: as `headers`.
        """

    @abstractmethod
    def headers(self, source: Path) -> tuple[dict[str, AnyHeader], tuple[str, ...]]:
        """Return where each tensor is, by name; and what training left beside them, in words.

        Raises:
            DataError: no weights, a pickle, or a checkpoint of another model.
            IntegrityError: truncated, damaged, or not of this configuration.
        """

    def read(self, headers: Headers, names: Sequence[str]) -> dict[str, Tensor]:
        """Return tensors by name; errors are those of `model_folder`."""
        plain = {name: header for name, header in headers.items() if isinstance(header, Header)}
        return model_folder.read_tensors(plain, list(names))


class SafetensorsFolder(Adapter):
    """The folders of transformers, and our own."""

    name = "huggingface"

    def is_one(self, source: Path) -> bool:
        return any((source / name).is_file() for name in (WEIGHTS, INDEX))

    def config_file(self, source: Path) -> Path:
        return source / CONFIG

    def weight_files(self, source: Path) -> list[Path]:
        return sorted({header.file for header in model_folder.read_headers(source).values()})

    def headers(self, source: Path) -> tuple[dict[str, AnyHeader], tuple[str, ...]]:
        return dict(model_folder.read_headers(source)), ()


class TensorFlowCheckpoint(Adapter):
    """The checkpoints of google-research/bert."""

    name = "tensorflow"

    def is_one(self, source: Path) -> bool:
        return tensorflow.find_prefix(source) is not None

    def config_file(self, source: Path) -> Path:
        folder = source if source.is_dir() else source.parent
        both = (folder / tensorflow.CONFIG, folder / CONFIG)
        return next((path for path in both if path.is_file()), both[0])

    def config(self, source: Path) -> Any:
        """Return the configuration of a BERT; its `hidden_act` may be under a key of ours, as
        google-research/bert knows one "gelu"."""
        path, config = self.config_file(source), super().config(source)
        activation = read_json(path).get(tensorflow.ACTIVATION)
        if path.name != tensorflow.CONFIG or activation is None:
            return config
        return replace(config, hidden_act=activation_of(activation, path))

    def system(self, source: Path, config: Any) -> System:
        system = system_that(lambda s: self.name in s.layouts, config, f"the checkpoint {source}")
        return system.in_layout(self.name)

    def weight_files(self, source: Path) -> list[Path]:
        prefix = self._prefix(source)
        starts = (f"{prefix.name}.index", f"{prefix.name}.data-")
        return sorted(path for path in prefix.parent.iterdir() if path.name.startswith(starts))

    def headers(self, source: Path) -> tuple[dict[str, AnyHeader], tuple[str, ...]]:
        variables, left = tensorflow.read_variables(self._prefix(source))
        return dict(variables), left

    def read(self, headers: Headers, names: Sequence[str]) -> dict[str, Tensor]:
        """Return variables, and tensors of task heads, which have a safetensors file beside."""
        variables: dict[str, Tensor] = {}
        for name in names:
            if isinstance(header := headers[name], BundleEntry):
                tensor = read_tensor(name, header)
                variables[name] = model_folder.finite(name, header.file, tensor)
        return variables | super().read(headers, [name for name in names if name not in variables])

    def _prefix(self, source: Path) -> Path:
        """Return the name of the checkpoint, without `.index`."""
        prefix = tensorflow.find_prefix(source)
        assert prefix is not None
        return prefix


SAFETENSORS, TENSORFLOW = SafetensorsFolder(), TensorFlowCheckpoint()
ADAPTERS: tuple[Adapter, ...] = (SAFETENSORS, TENSORFLOW)
"""In the order in which they are tried: a folder that has weights of both is one of safetensors."""


def adapter_of(source: Path) -> Adapter:
    """Return the adapter of a source; that of safetensors also for a folder without weights."""
    if not source.is_dir():
        return TENSORFLOW
    return next((each for each in ADAPTERS if each.is_one(source)), SAFETENSORS)
