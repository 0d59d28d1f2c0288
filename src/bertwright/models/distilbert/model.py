"""DistilBERT: half of BERT's layers, without segments (Sanh et al. 2019, section 3).

The model has no pooler over [CLS] as BERT has. A classifier has a dense layer with ReLU in its
place, which is our pooler. In transformers:

| part | ours (in a learner) | theirs |
|---|---|---|
| encoder | `encoder.embeddings.*` | `distilbert.embeddings.*` |
| encoder | `encoder.layers.I.*` | `distilbert.transformer.layer.I.*` |
| masked_lm | `objectives.masked_lm.*` | `vocab_transform`, `vocab_layer_norm`, `vocab_projector` |
| pooler | `encoder.pooler.dense.*` | `pre_classifier.*` |

Task heads have BERT's names; those of texts and of multiple choice read the pooler.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from bertwright.models.bert.encoder import Bert, bert_spec
from bertwright.models.bert.huggingface import EMBEDDINGS, BertLayout, Names
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import BERT
from bertwright.models.catalogue import MODELS
from bertwright.models.system import System


class DistilBert(Bert):
    """The encoder of DistilBERT."""

    pooler_activation: ClassVar[str] = "relu"


class DistilBertLayout(BertLayout):
    """DistilBERT as transformers stores it."""

    title: ClassVar[str] = "DistilBERT"
    classes: ClassVar[str] = "DistilBert"
    prefix: ClassVar[str] = "distilbert."
    encoder: ClassVar[Names] = {
        **EMBEDDINGS,
        "layers.#.attention.qkv": (
            "transformer.layer.#.attention.q_lin",
            "transformer.layer.#.attention.k_lin",
            "transformer.layer.#.attention.v_lin",
        ),
        "layers.#.attention.output": "transformer.layer.#.attention.out_lin",
        "layers.#.attention_norm": "transformer.layer.#.sa_layer_norm",
        "layers.#.feed_forward.intermediate": "transformer.layer.#.ffn.lin1",
        "layers.#.feed_forward.output": "transformer.layer.#.ffn.lin2",
        "layers.#.feed_forward_norm": "transformer.layer.#.output_layer_norm",
    }
    pooler: ClassVar[Names] = {"dense": "pre_classifier"}
    objectives: ClassVar[Mapping[str, Names]] = {
        "masked_lm": {
            "transform": "vocab_transform",
            "norm": "vocab_layer_norm",
            "bias": "vocab_projector.bias",
        },
    }
    decoder: ClassVar[str] = "vocab_projector"
    bare: ClassVar[tuple[str, ...]] = ("embeddings.", "transformer.")
    heads: ClassVar[tuple[str, ...]] = ("vocab_", "pre_classifier.", "classifier.", "qa_outputs.")
    dropout_keys: ClassVar[Mapping[str, str]] = {
        "classification": "seq_classif_dropout",
        "regression": "seq_classif_dropout",
        "multiple-choice": "seq_classif_dropout",
        "span": "qa_dropout",
    }
    keys: ClassVar[Mapping[str, str]] = {
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
    required: ClassVar[Collection[str]] = ("vocab_size", "dim", "n_layers", "n_heads", "hidden_dim")
    constants: ClassVar[Mapping[str, Any]] = {
        "activation": "gelu",
        "sinusoidal_pos_embds": False,  # the positions are stored, whatever they were
        "tie_word_embeddings": True,
    }
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "activation": ("gelu",),
        "tie_word_embeddings": (True, None),
        "tie_weights_": (True, None),
        "pruned_heads": ({}, None),
        "quantization_config": (None,),
    }


DISTILBERT = System(
    row=MODELS["distilbert"],
    encoder=DistilBert,
    spec=bert_spec,
    objectives={"masked_lm": MaskedLM},
    layout=DistilBertLayout,
    is_padded=True,
    vocabulary=BERT.vocabulary,
)
