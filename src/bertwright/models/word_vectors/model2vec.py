"""model2vec's folders: a table of token vectors that was distilled from an encoder.

`config.json` has the `model_type` "model2vec", `hidden_dim` (H) and `normalize`;
`model.safetensors` has one tensor, `embeddings` `[V, H]`; `tokenizer.json` is that of the encoder.
The vector of a text is the mean over its tokens, without special tokens and unknown ones.

Letters: V tokens, H width.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertwright.errors import DataError
from bertwright.models.layout import Layout
from bertwright.models.word_vectors.config import StaticConfig
from bertwright.storage.model_folder import read_headers
from bertwright.storage.tensor_names import ParameterMapping, Parts

TABLE = "embeddings"
_OTHERS = ("mapping", "weights")
"""Tensors of folders whose vocabulary is stored in fewer rows; they are not read."""
_LONGEST = 1_000_000
"""The value of `seq_length`, which has no meaning for a table; model2vec writes the same number."""


class Model2VecLayout(Layout[StaticConfig]):
    """A table of token vectors as model2vec stores it."""

    def read_config(self, content: Mapping[str, Any], path: Path) -> StaticConfig:
        headers = read_headers(path.parent)
        if TABLE not in headers or any(name in headers for name in _OTHERS):
            raise DataError(
                f"the weights beside {path} are {', '.join(sorted(headers))}; expected one table "
                f"{TABLE!r}, of a model2vec without a quantized vocabulary"
            )
        shape = headers[TABLE].shape
        if len(shape) != 2 or content.get("hidden_dim", shape[1]) != shape[1]:
            raise DataError(
                f"{TABLE!r} beside {path} is {list(shape)}, and hidden_dim is "
                f"{content.get('hidden_dim')!r}: expected tokens x hidden_dim"
            )
        sizes: dict[str, Any] = {"vocab_size": shape[0], "hidden_size": shape[1]}
        if "normalize" in content:
            sizes["normalize"] = content["normalize"]
        return super().read_config(sizes, path)

    def write_config(self, config: StaticConfig, objectives: frozenset[str]) -> dict[str, Any]:
        return {
            "architectures": ["StaticModel"],
            "model_type": self.model_type,
            "hidden_dim": config.hidden_size,
            "normalize": config.normalize,
            "seq_length": _LONGEST,
        }

    def foreign_names(self, config: StaticConfig) -> Parts:
        return {"encoder": [ParameterMapping("encoder.table.weight", (TABLE,))]}
