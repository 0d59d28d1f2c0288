"""Open the folders of each layout, with one adapter per layout.

| layout | weights | configuration |
|---|---|---|
| `huggingface` | `model.safetensors`, or shards with an index | `config.json` |
| tables of token vectors | `model.safetensors` | `config.json`, else sentence-transformers' |
| `tensorflow` | `NAME.index`, `NAME.data-*` | `bert_config.json`, else `config.json` |

A source is a folder, or the name of a TensorFlow checkpoint without `.index`. An adapter opens the
files; the `Layout` of the model (`models/layout.py`) defines the names of their tensors.
Bertwright's own checkpoints have the layout `huggingface`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bertwright.checkpoint.sentence_transformers.folder import SETTINGS_FILE
from bertwright.errors import BertwrightError
from bertwright.models.bert import tensorflow
from bertwright.models.bert.huggingface import activation_of
from bertwright.models.load import load, system_of_config, system_of_folder, system_that
from bertwright.models.system import System
from bertwright.models.word_vectors import model2vec
from bertwright.storage import model_folder
from bertwright.storage.model_folder import BERT_CONFIG, CONFIG, INDEX, WEIGHTS, Header, read_json
from bertwright.storage.tensor_bundle import BundleEntry, find_prefix, read_tensor

AnyHeader = Header | BundleEntry
Headers = Mapping[str, AnyHeader]
"""The name of each tensor -> its file, shape and type."""


class Adapter(ABC):
    """An adapter that opens the folders of one layout."""

    name: str
    """The name of the layout in the output of `bertwright inspect`."""

    @abstractmethod
    def is_one(self, source: Path) -> bool:
        """Return whether the weights of a source have this layout."""

    @abstractmethod
    def config_file(self, source: Path) -> Path:
        """Return the path of the configuration file, which may not exist."""

    def config(self, path: Path, content: Mapping[str, Any]) -> Any:
        """Return the configuration of a model, an instance of its system's configuration class,
        from the path and the content of its configuration file.

        Raises:
            DataError: the model is of a kind that is not read.
        """
        return system_of_folder(content, path).names.read_config(content, path)

    def system(self, source: Path, config: Any) -> System:
        """Return the system of a model, with the tensor names of this layout.

        Raises:
            ConfigError: the layout cannot hold models of this configuration.
        """
        return system_of_config(config)

    @abstractmethod
    def weight_files(self, source: Path) -> list[Path]:
        """Return the files that hold the weights, without the separate file of task heads.

        Raises:
            DataError, IntegrityError: as for `headers`.
        """

    @abstractmethod
    def headers(self, source: Path) -> tuple[dict[str, AnyHeader], tuple[str, ...]]:
        """Return the position of each tensor by name, and descriptions of the training state that
        is stored beside the tensors.

        Raises:
            DataError: there are no weights, they are a pickle, or the checkpoint is of another
                kind of model.
            IntegrityError: the files are truncated or damaged, or do not fit the configuration.
        """

    def read(self, headers: Headers, names: Sequence[str]) -> dict[str, Tensor]:
        """Return the tensors with these names.

        Raises:
            DataError, IntegrityError: as for `model_folder.read_tensors`.
        """
        plain = {name: header for name, header in headers.items() if isinstance(header, Header)}
        return model_folder.read_tensors(plain, list(names))


class SafetensorsFolder(Adapter):
    """The adapter for folders of transformers and of Bertwright."""

    name = "huggingface"

    def is_one(self, source: Path) -> bool:
        return any((source / name).is_file() for name in (WEIGHTS, INDEX))

    def config_file(self, source: Path) -> Path:
        return source / CONFIG

    def weight_files(self, source: Path) -> list[Path]:
        return sorted({header.file for header in model_folder.read_headers(source).values()})

    def headers(self, source: Path) -> tuple[dict[str, AnyHeader], tuple[str, ...]]:
        return dict(model_folder.read_headers(source)), ()


class StaticFolder(SafetensorsFolder):
    """The adapter for tables of token vectors of model2vec and sentence-transformers
    (`models/word_vectors/model2vec.py`). Their configuration may name no `model_type`."""

    def is_one(self, source: Path) -> bool:
        if not source.is_dir():
            return False
        try:
            if not (source / CONFIG).is_file():
                return (source / SETTINGS_FILE).is_file() and model2vec.has_table(source)
            name = read_json(source / CONFIG).get("model_type")
            return name == "model2vec" or (name is None and model2vec.has_table(source))
        except BertwrightError:  # damaged files are named when they are read
            return False

    def config_file(self, source: Path) -> Path:
        path = source / CONFIG
        return path if path.is_file() else source / SETTINGS_FILE

    def config(self, path: Path, content: Mapping[str, Any]) -> Any:
        content = content if path.name == CONFIG else {}
        return load("model2vec").names.read_config(content, path)

    def weight_files(self, source: Path) -> list[Path]:
        return [model2vec.table_header(source).file]

    def headers(self, source: Path) -> tuple[dict[str, AnyHeader], tuple[str, ...]]:
        return {model2vec.TABLE: model2vec.table_header(source)}, ()

    def read(self, headers: Headers, names: Sequence[str]) -> dict[str, Tensor]:
        """Return the table, in which each token of the tokenizer has a row."""
        tensors = super().read(headers, names)
        header, table = headers.get(model2vec.TABLE), tensors.get(model2vec.TABLE)
        if table is not None and isinstance(header, Header):
            beside = model_folder.headers_of(header.file)
            more = [name for name in beside if name != header.stored]
            read = model_folder.read_tensors(beside, more)
            tensors[model2vec.TABLE] = model2vec.fold(table, read, header.file)
        return tensors


class TensorFlowCheckpoint(Adapter):
    """The adapter for checkpoints of google-research/bert."""

    name = "tensorflow"

    def is_one(self, source: Path) -> bool:
        return find_prefix(source) is not None

    def config_file(self, source: Path) -> Path:
        folder = source if source.is_dir() else source.parent
        both = (folder / BERT_CONFIG, folder / CONFIG)
        return next((path for path in both if path.is_file()), both[0])

    def config(self, path: Path, content: Mapping[str, Any]) -> Any:
        """Return the configuration of a BERT. Its activation may be under a key of Bertwright's
        own, because google-research/bert has only one "gelu"."""
        config, activation = super().config(path, content), content.get(tensorflow.ACTIVATION)
        if path.name != BERT_CONFIG or activation is None:
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
        """Return variables by name, and tensors of task heads, which are in a separate safetensors
        file."""
        variables: dict[str, Tensor] = {}
        for name in names:
            if isinstance(header := headers[name], BundleEntry):
                tensor = read_tensor(name, header)
                variables[name] = model_folder.finite(name, header.file, tensor)
        return variables | super().read(headers, [name for name in names if name not in variables])

    def _prefix(self, source: Path) -> Path:
        """Return the name of the checkpoint, without `.index`."""
        prefix = find_prefix(source)
        assert prefix is not None
        return prefix


SAFETENSORS, TENSORFLOW = SafetensorsFolder(), TensorFlowCheckpoint()
ADAPTERS: tuple[Adapter, ...] = (StaticFolder(), SAFETENSORS, TENSORFLOW)
"""The adapters in the order in which they are tried: if a folder has both kinds of weights, its
safetensors are read."""


def adapter_of(source: Path) -> Adapter:
    """Return the adapter of a source. A folder without weights gets `SAFETENSORS`."""
    if not source.is_dir():
        return TENSORFLOW
    return next((each for each in ADAPTERS if each.is_one(source)), SAFETENSORS)
