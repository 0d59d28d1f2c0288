"""Folders of transformers, which are also those of Bertwright: `config.json` and
`model.safetensors`, or shards with an index."""

from __future__ import annotations

from pathlib import Path

from bertwright.checkpoint.formats.format import AnyHeader, FolderFormat
from bertwright.storage import model_folder
from bertwright.storage.model_folder import CONFIG, INDEX, WEIGHTS


class HuggingFace(FolderFormat):
    """Folders of transformers and of Bertwright."""

    name = "huggingface"

    def recognize(self, source: Path) -> bool:
        return any((source / name).is_file() for name in (WEIGHTS, INDEX))

    def config_file(self, source: Path) -> Path:
        return source / CONFIG

    def weight_files(self, source: Path) -> list[Path]:
        return sorted({header.file for header in model_folder.read_headers(source).values()})

    def headers(self, source: Path) -> tuple[dict[str, AnyHeader], tuple[str, ...]]:
        return dict(model_folder.read_headers(source)), ()
