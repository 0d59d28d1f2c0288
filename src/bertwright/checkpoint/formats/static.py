"""Tables of token vectors of model2vec and sentence-transformers
(`models/word_vectors/model2vec.py`): `model.safetensors`, and `config.json` or the settings of
sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from bertwright.checkpoint.formats.format import AnyHeader, Headers
from bertwright.checkpoint.formats.huggingface import HuggingFace
from bertwright.checkpoint.sentence_transformers.folder import SETTINGS_FILE
from bertwright.errors import BertwrightError
from bertwright.models.load import load
from bertwright.models.word_vectors import model2vec
from bertwright.storage import model_folder
from bertwright.storage.model_folder import CONFIG, Header, read_json


class Static(HuggingFace):
    """Tables of token vectors. Their configuration may name no `model_type`."""

    def recognize(self, source: Path) -> bool:
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
