"""ALBERT as transformers stores it: `config.json`, names of tensors, heads.

| part | ours (in a learner) | theirs |
|---|---|---|
| encoder | `encoder.embeddings.*` | `albert.embeddings.*`, as BERT's |
| encoder | `encoder.embeddings.project.*` | `albert.encoder.embedding_hidden_mapping_in.*` |
| encoder | `encoder.shared_layer.*` | `albert.encoder.albert_layer_groups.0.albert_layers.0.*` |
| pooler | `encoder.pooler.dense.*` | `albert.pooler.*` |
| masked_lm | `objectives.masked_lm.*` | `predictions.*` |
| next_sentence | `objectives.next_sentence.classifier.*` | `sop_classifier.classifier.*` |

Task heads have BERT's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from bertwright.config.task import TaskConfig
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.huggingface import BertLayout, masked_lm_names
from bertwright.storage.tensor_names import ParameterMapping, Parts, pair

_DROPOUT = "classifier_dropout_prob"
# The defaults of transformers for keys that a file does not state.
_DEFAULTS: dict[str, Any] = {"hidden_act": "gelu_new", "embedding_size": 128}
_LAYER = {
    "attention.output": "attention.dense",
    "attention_norm": "attention.LayerNorm",
    "feed_forward.intermediate": "ffn",
    "feed_forward.output": "ffn_output",
    "feed_forward_norm": "full_layer_layer_norm",
}


class AlbertLayout(BertLayout):
    """ALBERT as transformers stores it."""

    title: ClassVar[str] = "ALBERT"
    classes: ClassVar[str] = "Albert"
    prefix: ClassVar[str] = "albert."
    heads: ClassVar[tuple[str, ...]] = (
        "predictions.",
        "sop_classifier.",
        "classifier.",
        "qa_outputs.",
    )
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **BertLayout.held,
        "num_hidden_groups": (1,),
        "inner_group_num": (1,),
    }
    repeats: ClassVar[Mapping[str, str]] = {
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    }
    dropout_keys: ClassVar[Mapping[str, str]] = dict.fromkeys(BertLayout.dropout_keys, _DROPOUT)

    def read_config(self, content: Mapping[str, Any], path: Path) -> BertConfig:
        return super().read_config({**_DEFAULTS, **content}, path)

    def write_config(self, config: BertConfig, objectives: frozenset[str]) -> dict[str, Any]:
        if objectives == {"next_sentence"}:
            objectives = frozenset()  # transformers has no class for it alone
        content = super().write_config(config, objectives)
        content.pop("pooler", None)  # a classifier has one
        return {**content, "num_hidden_groups": 1, "inner_group_num": 1}

    def foreign_names(self, config: BertConfig) -> Parts:
        pooler = {"pooler": pair("encoder.pooler.dense", f"{self.prefix}pooler")}
        return {
            "encoder": self.encoder_names(config),
            **(pooler if config.pooler else {}),
            "masked_lm": masked_lm_names(
                "predictions.dense", "predictions.LayerNorm", "predictions.bias"
            ),
            "next_sentence": pair(
                "objectives.next_sentence.classifier", "sop_classifier.classifier"
            ),
        }

    def layer_names(self, config: BertConfig) -> list[ParameterMapping]:
        ours = "encoder.shared_layer"
        theirs = f"{self.prefix}encoder.albert_layer_groups.0.albert_layers.0"
        three = [f"{theirs}.attention.{name}" for name in ("query", "key", "value")]
        names = pair(
            "encoder.embeddings.project", f"{self.prefix}encoder.embedding_hidden_mapping_in"
        )
        names += pair(f"{ours}.attention.qkv", *three)
        for part, name in _LAYER.items():
            names += pair(f"{ours}.{part}", f"{theirs}.{name}")
        return names

    def derived_task(
        self, content: Mapping[str, Any], config: BertConfig, path: Path
    ) -> TaskConfig | None:
        """Return the task of a model that transformers saved; its dropout is 0.1 if unset."""
        return super().derived_task({_DROPOUT: 0.1, **content}, config, path)
