"""ALBERT: one of BERT's layers, used L times (Lan et al. 2020, section 3.1).

The embeddings are narrower than the layers, and a linear layer projects them. All layers share
their parameters, so that the model is stored and trained as one layer, and computed as L. Its
objectives are masked LM and sentence-order prediction. In transformers:

| part | ours (in a learner) | theirs |
|---|---|---|
| encoder | `encoder.embeddings.*` | `albert.embeddings.*`, as BERT's |
| encoder | `encoder.embeddings.project.*` | `albert.encoder.embedding_hidden_mapping_in.*` |
| encoder | `encoder.shared_layer.*` | `albert.encoder.albert_layer_groups.0.albert_layers.0.*` |
| pooler | `encoder.pooler.dense.*` | `albert.pooler.*` |
| masked_lm | `objectives.masked_lm.*` | `predictions.*` |
| next_sentence | `objectives.next_sentence.classifier.*` | `sop_classifier.classifier.*` |

Task heads have BERT's names. Letters: L layers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from bertwright.models.albert.config import AlbertConfig
from bertwright.models.bert.encoder import Bert
from bertwright.models.bert.huggingface import EMBEDDINGS, BertLayout, Names
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import BERT, next_sentence, without_unread_pooler
from bertwright.models.catalogue import MODELS
from bertwright.models.system import initialize_as_published
from bertwright.nn.transformer.layers import TransformerLayer, layers_of

_LAYER = "encoder.albert_layer_groups.0.albert_layers.0"


class Albert(Bert):
    """The encoder of ALBERT."""

    shared_layer: TransformerLayer
    """The one layer, which is used L times."""

    def make_layers(self, config: AlbertConfig) -> Any:
        """Return a tuple that holds the one layer L times.

        A tuple does not register its modules, so the parameters have one name only.
        """
        (layer,) = layers_of(replace(config, num_hidden_layers=1))
        assert isinstance(layer, TransformerLayer)
        self.shared_layer = layer
        return (self.shared_layer,) * config.num_hidden_layers


class AlbertLayout(BertLayout):
    """ALBERT as transformers stores it."""

    title: ClassVar[str] = "ALBERT"
    classes: ClassVar[str] = "Albert"
    architectures: ClassVar[Mapping[frozenset[str], str]] = {
        **BertLayout.architectures,
        frozenset({"next_sentence"}): "Model",  # transformers has no class for it alone
    }
    prefix: ClassVar[str] = "albert."
    encoder: ClassVar[Names] = {
        **EMBEDDINGS,
        "embeddings.project": "encoder.embedding_hidden_mapping_in",
        "shared_layer.attention.qkv": (
            f"{_LAYER}.attention.query",
            f"{_LAYER}.attention.key",
            f"{_LAYER}.attention.value",
        ),
        "shared_layer.attention.output": f"{_LAYER}.attention.dense",
        "shared_layer.attention_norm": f"{_LAYER}.attention.LayerNorm",
        "shared_layer.feed_forward.intermediate": f"{_LAYER}.ffn",
        "shared_layer.feed_forward.output": f"{_LAYER}.ffn_output",
        "shared_layer.feed_forward_norm": f"{_LAYER}.full_layer_layer_norm",
    }
    pooler: ClassVar[Names] = {"dense": "albert.pooler"}
    objectives: ClassVar[Mapping[str, Names]] = {
        "masked_lm": {
            "transform": "predictions.dense",
            "norm": "predictions.LayerNorm",
            "bias": "predictions.bias",
        },
        "next_sentence": {"classifier": "sop_classifier.classifier"},
    }
    decoder: ClassVar[str] = "predictions.decoder"
    heads: ClassVar[tuple[str, ...]] = (
        "predictions.",
        "sop_classifier.",
        "classifier.",
        "qa_outputs.",
    )
    defaults: ClassVar[Mapping[str, Any]] = {
        "hidden_act": "gelu_new",
        "embedding_size": 128,
        "classifier_dropout_prob": 0.1,
    }
    constants: ClassVar[Mapping[str, Any]] = {
        **BertLayout.constants,
        "num_hidden_groups": 1,
        "inner_group_num": 1,
    }
    unwritten: ClassVar[Collection[str]] = ("pooler",)  # a classifier has one
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **BertLayout.held,
        "num_hidden_groups": (1,),
        "inner_group_num": (1,),
    }
    dropout_keys: ClassVar[Mapping[str, str]] = dict.fromkeys(
        BertLayout.dropout_keys, "classifier_dropout_prob"
    )


ALBERT = replace(
    BERT,
    row=MODELS["albert"],
    encoder=Albert,
    objectives={"masked_lm": MaskedLM, "next_sentence": next_sentence},
    layout=AlbertLayout,
    layouts={},
    model=without_unread_pooler,
    initialize=initialize_as_published,
)
