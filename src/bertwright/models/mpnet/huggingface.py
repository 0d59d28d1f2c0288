"""MPNet as transformers stores it: `config.json`, names of tensors, heads.

| part | ours (in a learner) | theirs |
|---|---|---|
| encoder | `encoder.embeddings.*` | `mpnet.embeddings.*`, as BERT's |
| encoder | `encoder.embeddings.distance.weight` | `mpnet.encoder.relative_attention_bias.weight` |
| encoder | `encoder.layers.I.*` | `mpnet.encoder.layer.I.*` |

The pooler, the masked LM and the heads of tasks have RoBERTa's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.huggingface import BertLayout
from bertwright.models.roberta.huggingface import RobertaLayout
from bertwright.storage.tensor_names import ParameterMapping, pair

# The defaults of transformers for keys that a file does not state.
_DEFAULTS = {"layer_norm_eps": 1e-12, "max_position_embeddings": 512}
_LAYER = {
    "attention.output": "attention.attn.o",
    "attention_norm": "attention.LayerNorm",
    "feed_forward.intermediate": "intermediate.dense",
    "feed_forward.output": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}


class MpnetLayout(RobertaLayout):
    """MPNet as transformers stores it."""

    title: ClassVar[str] = "MPNet"
    classes: ClassVar[str] = "MPNet"
    prefix: ClassVar[str] = "mpnet."
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **BertLayout.held,
        "relative_attention_num_buckets": (32,),
    }
    dropout_keys: ClassVar[Mapping[str, str]] = {}
    repeats: ClassVar[Mapping[str, str]] = {
        "lm_head.decoder.weight": "mpnet.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }

    def read_config(self, content: Mapping[str, Any], path: Path) -> BertConfig:
        given = {key: value for key, value in content.items() if key != "type_vocab_size"}
        # whatever the padding of the vocabulary is, positions begin as if it were 1
        return super().read_config({**_DEFAULTS, **given, "pad_token_id": 1}, path)

    def write_config(self, config: BertConfig, objectives: frozenset[str]) -> dict[str, Any]:
        content = super().write_config(config, objectives)
        del content["type_vocab_size"], content["pad_token_id"]  # the latter is the tokenizer's
        return {**content, "relative_attention_num_buckets": 32}

    def layer_names(self, config: BertConfig) -> list[ParameterMapping]:
        table = f"{self.prefix}encoder.relative_attention_bias.weight"
        names = [ParameterMapping("encoder.embeddings.distance.weight", (table,))]
        for index in range(config.num_hidden_layers):
            ours, theirs = f"encoder.layers.{index}", f"{self.prefix}encoder.layer.{index}"
            three = [f"{theirs}.attention.attn.{name}" for name in "qkv"]
            names += pair(f"{ours}.attention.qkv", *three)
            for part, name in _LAYER.items():
                names += pair(f"{ours}.{part}", f"{theirs}.{name}")
        return names
