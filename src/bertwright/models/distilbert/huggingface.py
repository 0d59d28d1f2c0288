"""DistilBERT as transformers stores it: `config.json`, names of tensors, task heads.

| part | ours (in a learner) | theirs |
|---|---|---|
| encoder | `encoder.embeddings.*` | `distilbert.embeddings.*` |
| encoder | `encoder.layers.I.*` | `distilbert.transformer.layer.I.*` |
| masked_lm | `objectives.masked_lm.*` | `vocab_transform`, `vocab_layer_norm`, `vocab_projector` |
| pooler | `encoder.pooler.dense.*` | `pre_classifier.*` |

Task heads have BERT's names; those of texts and of multiple choice read the pooler.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from bertwright.config.values import to_dict
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.huggingface import BertLayout, masked_lm_names
from bertwright.models.layout import Layout
from bertwright.storage.model_folder import check_settings
from bertwright.storage.tensor_names import ParameterMapping, Parts, pair

_KEYS = {
    "vocab_size": "vocab_size",
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "hidden_dim": "intermediate_size",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "max_position_embeddings": "max_position_embeddings",
    "initializer_range": "initializer_range",
}
_REQUIRED = ("vocab_size", "dim", "n_layers", "n_heads", "hidden_dim")
_LAYER = {
    "attention.output": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "feed_forward.intermediate": "ffn.lin1",
    "feed_forward.output": "ffn.lin2",
    "feed_forward_norm": "output_layer_norm",
}


class DistilBertLayout(BertLayout):
    """DistilBERT as transformers stores it."""

    title: ClassVar[str] = "DistilBERT"
    classes: ClassVar[str] = "DistilBert"
    prefix: ClassVar[str] = "distilbert."
    bare: ClassVar[tuple[str, ...]] = ("embeddings.", "transformer.")
    heads: ClassVar[tuple[str, ...]] = ("vocab_", "pre_classifier.", "classifier.", "qa_outputs.")
    dropout_keys: ClassVar[Mapping[str, str]] = {
        "classification": "seq_classif_dropout",
        "regression": "seq_classif_dropout",
        "multiple-choice": "seq_classif_dropout",
        "span": "qa_dropout",
    }
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "activation": ("gelu",),
        "tie_word_embeddings": (True, None),
        "tie_weights_": (True, None),
        "pruned_heads": ({}, None),
        "quantization_config": (None,),
    }
    repeats: ClassVar[Mapping[str, str]] = {
        "vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight",
    }

    def read_config(self, content: Mapping[str, Any], path: Path) -> BertConfig:
        check_settings(content, path, self.title, self.held, _REQUIRED)
        given = {ours: content[theirs] for theirs, ours in _KEYS.items() if theirs in content}
        return Layout.read_config(self, given, path)

    def write_config(self, config: BertConfig, objectives: frozenset[str]) -> dict[str, Any]:
        sizes = to_dict(config)
        return {
            "architectures": super().write_config(config, objectives)["architectures"],
            "model_type": self.model_type,
            **{theirs: sizes[ours] for theirs, ours in _KEYS.items()},
            "activation": "gelu",
            "sinusoidal_pos_embds": False,  # the positions are stored, whatever they were
            "tie_word_embeddings": True,
        }

    def foreign_names(self, config: BertConfig) -> Parts:
        pooler = {"pooler": pair("encoder.pooler.dense", "pre_classifier")}
        return {
            "encoder": self.encoder_names(config),
            **(pooler if config.pooler else {}),
            "masked_lm": masked_lm_names(
                "vocab_transform", "vocab_layer_norm", "vocab_projector.bias"
            ),
        }

    def encoder_names(self, config: BertConfig) -> list[ParameterMapping]:
        encoder = [
            ParameterMapping(
                f"encoder.embeddings.{ours}.weight", (f"{self.prefix}embeddings.{theirs}.weight",)
            )
            for ours, theirs in (("token", "word_embeddings"), ("position", "position_embeddings"))
        ]
        encoder += pair("encoder.embeddings.norm", f"{self.prefix}embeddings.LayerNorm")
        for index in range(config.num_hidden_layers):
            ours, theirs = f"encoder.layers.{index}", f"{self.prefix}transformer.layer.{index}"
            three = [f"{theirs}.attention.{name}_lin" for name in "qkv"]
            encoder += pair(f"{ours}.attention.qkv", *three)
            for part, name in _LAYER.items():
                encoder += pair(f"{ours}.{part}", f"{theirs}.{name}")
        return encoder
