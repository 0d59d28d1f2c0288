"""Tables of token vectors, as model2vec and sentence-transformers (StaticEmbedding) store them.

model2vec: `config.json` has `normalize`, and before version 0.10 the `model_type` "model2vec" and
`hidden_dim` (H). `model.safetensors` has `embeddings` `[V, H]`. With a quantized vocabulary,
`embeddings` is `[R, H]`, `mapping` `[V]` has the row of each token, and `weights` `[V]` the factor
of each token. The vector of a text is the mean over its tokens, without special and unknown ones.

sentence-transformers: `model.safetensors`, in the folder itself or in `0_StaticEmbedding`, has
`embedding.weight` `[V, H]`. The mean includes unknown tokens. There is no `config.json`.

Letters: V tokens, H width, R rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from bertwright.errors import DataError, IntegrityError
from bertwright.models.layout import Layout
from bertwright.models.word_vectors.config import StaticConfig
from bertwright.storage.model_folder import WEIGHTS, Header, read_headers
from bertwright.storage.tensor_names import ParameterMapping, Parts, quote
from bertwright.text.tokenizer.files import STATIC_PART

TABLE = "embeddings"
_TABLES = (TABLE, "embedding.weight")
"""The names of the table in folders of model2vec and of sentence-transformers."""
_MAPPING, _FACTORS = "mapping", "weights"
_LONGEST = 1_000_000
"""The value of `seq_length`, which has no meaning for a table; model2vec writes the same number."""


class Model2VecLayout(Layout[StaticConfig]):
    """A table of token vectors as model2vec stores it."""

    def read_config(self, content: Mapping[str, Any], path: Path) -> StaticConfig:
        header = table_header(path.parent)
        size, width = header.shape
        if content.get("hidden_dim", width) != width:
            raise DataError(
                f"{header.stored!r} beside {path} is {list(header.shape)}, and hidden_dim is "
                f"{content['hidden_dim']!r}: expected tokens x hidden_dim"
            )
        sizes: dict[str, Any] = {"vocab_size": size, "hidden_size": width}
        sizes["normalize"] = content.get("normalize", False)
        sizes["averages_unknown"] = content.get("averages_unknown", header.stored != TABLE)
        return super().read_config(sizes, path)

    def write_config(self, config: StaticConfig, objectives: frozenset[str]) -> dict[str, Any]:
        return {
            "architectures": ["StaticModel"],
            "model_type": self.model_type,
            "hidden_dim": config.hidden_size,
            "normalize": config.normalize,
            **({"averages_unknown": True} if config.averages_unknown else {}),
            "seq_length": _LONGEST,
        }

    def foreign_names(self, config: StaticConfig) -> Parts:
        return {"encoder": [ParameterMapping("encoder.table.weight", (TABLE,))]}


def place_of(folder: Path) -> Path:
    """Return the folder that has the table and the tokenizer: `0_StaticEmbedding` within a folder
    that has no weights itself."""
    part = folder / STATIC_PART
    return part if (part / WEIGHTS).is_file() and not (folder / WEIGHTS).is_file() else folder


def has_table(folder: Path) -> bool:
    """Return whether the weights of a folder are a table of token vectors."""
    place = place_of(folder)
    return (place / WEIGHTS).is_file() and not read_headers(place).keys().isdisjoint(_TABLES)


def table_header(folder: Path) -> Header:
    """Return the header of the table `[V, H]`, with its name in the file."""
    place = place_of(folder)
    headers = read_headers(place)
    names = [name for name in _TABLES if name in headers]
    if len(names) != 1 or headers.keys() - {names[0], _MAPPING, _FACTORS}:
        raise DataError(
            f"the weights in {place} are {quote(sorted(headers))}; expected a table of token "
            f"vectors, {' or '.join(_TABLES)}"
        )
    table, size = headers[names[0]], headers[names[0]].shape[:1]
    if _MAPPING in headers:
        size = headers[_MAPPING].shape
    if len(table.shape) != 2 or len(size) != 1:
        raise DataError(f"{names[0]!r} in {place} is {list(table.shape)}; expected tokens x width")
    if _FACTORS in headers and headers[_FACTORS].shape != size:
        raise IntegrityError(
            f"{_FACTORS!r} in {place} is {list(headers[_FACTORS].shape)}; expected {list(size)}, a "
            "number for each token"
        )
    return table._replace(shape=(size[0], table.shape[1]))


def fold(table: Tensor, beside: Mapping[str, Tensor], where: Path) -> Tensor:
    """Return the vectors of the tokens `[V, H]` from a table and the tensors beside it."""
    if (mapping := beside.get(_MAPPING)) is not None:
        rows = mapping.long()
        if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < len(table):
            raise IntegrityError(
                f"{_MAPPING!r} in {where} names the row {int(rows.max())}; the table has "
                f"{len(table)} rows"
            )
        table = table[rows]
    if (factors := beside.get(_FACTORS)) is not None:
        table = table.float() * factors.float()[:, None]
    return table
