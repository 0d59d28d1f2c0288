"""Checkpoints of google-research/bert: `NAME.index`, `NAME.data-*` and `bert_config.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bertwright.checkpoint.formats.format import AnyHeader, FolderFormat, Headers
from bertwright.models.bert import tensorflow
from bertwright.models.bert.huggingface import activation_of
from bertwright.models.load import system_that
from bertwright.models.system import System
from bertwright.storage import model_folder
from bertwright.storage.model_folder import BERT_CONFIG, CONFIG
from bertwright.storage.tensor_bundle import BundleEntry, find_prefix, read_tensor


class TensorFlow(FolderFormat):
    """Checkpoints of google-research/bert."""

    name = "tensorflow"

    def recognize(self, source: Path) -> bool:
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
