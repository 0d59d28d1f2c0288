"""MPNet as transformers stores it: `config.json`, names of tensors, heads.

| part | ours (in a learner) | theirs |
|---|---|---|
| encoder | `encoder.embeddings.*` | `mpnet.embeddings.*`, as BERT's |
| encoder | `encoder.embeddings.distance.weight` | `mpnet.encoder.relative_attention_bias.weight` |
| encoder | `encoder.layers.I.*` | `mpnet.encoder.layer.I.*` |

The pooler, the masked LM and the heads of tasks have RoBERTa's names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.huggingface import EMBEDDINGS, BertLayout, Names
from bertwright.models.roberta.huggingface import RobertaLayout


class MpnetLayout(RobertaLayout):
    """MPNet as transformers stores it."""

    title: ClassVar[str] = "MPNet"
    classes: ClassVar[str] = "MPNet"
    prefix: ClassVar[str] = "mpnet."
    encoder: ClassVar[Names] = {
        **EMBEDDINGS,
        "embeddings.distance.weight": "encoder.relative_attention_bias.weight",
        "layers.#.attention.qkv": (
            "encoder.layer.#.attention.attn.q",
            "encoder.layer.#.attention.attn.k",
            "encoder.layer.#.attention.attn.v",
        ),
        "layers.#.attention.output": "encoder.layer.#.attention.attn.o",
        "layers.#.attention_norm": "encoder.layer.#.attention.LayerNorm",
        "layers.#.feed_forward.intermediate": "encoder.layer.#.intermediate.dense",
        "layers.#.feed_forward.output": "encoder.layer.#.output.dense",
        "layers.#.feed_forward_norm": "encoder.layer.#.output.LayerNorm",
    }
    pooler: ClassVar[Names] = {"dense": "mpnet.pooler.dense"}
    unread: ClassVar[tuple[str, ...]] = ("mpnet.pooler.",)  # a classifier may have one unused
    defaults: ClassVar[Mapping[str, Any]] = {
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512,
    }
    constants: ClassVar[Mapping[str, Any]] = {
        **BertLayout.constants,
        "relative_attention_num_buckets": 32,
    }
    unwritten: ClassVar[Collection[str]] = (
        *RobertaLayout.unwritten,
        "type_vocab_size",
    )
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **BertLayout.held,
        "relative_attention_num_buckets": (32,),
    }
    dropout_keys: ClassVar[Mapping[str, str]] = {}

    def read_config(self, content: Mapping[str, Any], path: Path) -> BertConfig:
        given = {key: value for key, value in content.items() if key != "type_vocab_size"}
        # whatever the padding of the vocabulary is, positions begin as if it were 1
        return super().read_config({**given, "pad_token_id": 1}, path)

    def write_config(self, config: BertConfig, objectives: frozenset[str]) -> dict[str, Any]:
        content = super().write_config(config, objectives)
        del content["pad_token_id"]  # which is the tokenizer's
        return content
