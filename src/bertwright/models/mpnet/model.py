"""MPNet: BERT's layers with a bias on attention scores that depends on distance.

Song et al. 2020, section 4.1; Raffel et al. 2020, section 2.1. One table for all layers holds a
number for each attention head and each of 32 bins of distances: 16 for keys before the query and 16
for keys after it. Of each 16, 8 are single distances, and the others grow logarithmically up to
128.

As in transformers, the token with the id 1, which is the padding of published vocabularies, has its
own row of the position embeddings and does not count as a position, wherever it stands. Positions
of other tokens begin at row 2. There are no segments. In transformers:

| part | ours (in a learner) | theirs |
|---|---|---|
| encoder | `encoder.embeddings.*` | `mpnet.embeddings.*`, as BERT's |
| encoder | `encoder.embeddings.distance.weight` | `mpnet.encoder.relative_attention_bias.weight` |
| encoder | `encoder.layers.I.*` | `mpnet.encoder.layer.I.*` |

The pooler, the masked LM and the heads of tasks have RoBERTa's names.

Letters: N tokens, H hidden, A heads, T and S tokens of a sequence of queries and of its keys.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bertwright.models.bert.encoder import Bert, BertEmbeddings, bert_spec
from bertwright.models.bert.huggingface import (
    CLASSIFIER_POOLERS,
    CLASSIFIER_SCORES,
    EMBEDDINGS,
    LM_HEAD,
    BertLayout,
    Names,
)
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import BERT
from bertwright.models.catalogue import MODELS
from bertwright.models.mpnet.config import MpnetConfig
from bertwright.models.system import System
from bertwright.nn.sequences import Inputs
from bertwright.nn.transformer.embeddings import make_table
from bertwright.nn.transformer.layers import TransformerLayer, layers_of

PADDING = 1
"""The id of the token that does not count as a position, and the row of its position embedding."""
BINS, FARTHEST = 32, 128


def bin_of(distances: Tensor) -> Tensor:
    """Return the bin of each distance; a distance is the position of a key minus its query's."""
    half = BINS // 2
    single = half // 2
    away = distances.abs()
    far = (away.clamp_min(single).float() / single).log() / math.log(FARTHEST / single)
    large = (single + (far * (half - single)).long()).clamp_max(half - 1)
    return torch.where(away < single, away, large) + half * (distances > 0)


class MpnetEmbeddings(BertEmbeddings):
    """The normalized sum of token and position embeddings, and the table of distances."""

    def __init__(self, config: MpnetConfig) -> None:
        super().__init__(config)
        self.distance = make_table(BINS, config.num_attention_heads, config.initializer_range)

    def bias_at(self, distances: Tensor) -> Tensor:
        """Return the bias of each head at distances of any shape `[...]`, `[A, ...]`."""
        bias: Tensor = self.distance(bin_of(distances))
        return bias.movedim(-1, 0)


class Mpnet(Bert):
    """The encoder of MPNet."""

    embeddings: MpnetEmbeddings

    def make_embeddings(self, config: MpnetConfig) -> MpnetEmbeddings:
        return MpnetEmbeddings(config)

    def make_layers(self, config: MpnetConfig) -> nn.ModuleList:
        layers = layers_of(config)
        for layer in layers:
            assert isinstance(layer, TransformerLayer)
            layer.attention.bias_at = self.embeddings.bias_at
        return layers

    def embed(self, inputs: Inputs) -> Tensor:
        sequences, ids = inputs.sequences, inputs.ids
        self._check(sequences.longest)
        counted = ids != PADDING
        before = counted.cumsum(0)  # of the whole batch, up to each token
        first = sequences.first
        start = (before - counted.long()).index_select(0, first)
        positions = (before - start.index_select(0, sequences.index)) * counted + PADDING
        return self.embeddings(ids, positions)

    def embed_rows(self, ids: Tensor, segments: Tensor) -> Tensor:
        counted = (ids != PADDING).long()
        return self.embeddings(ids, counted.cumsum(1) * counted + PADDING)

    def embed_further(self, ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        return self.embeddings(ids, positions + PADDING + 1)


class MpnetLayout(BertLayout):
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
    objectives: ClassVar[Mapping[str, Names]] = LM_HEAD
    decoder: ClassVar[str] = "lm_head.decoder"
    task_poolers: ClassVar[Mapping[str, Names]] = CLASSIFIER_POOLERS
    task_scores: ClassVar[Mapping[str, str]] = CLASSIFIER_SCORES
    heads: ClassVar[tuple[str, ...]] = ("lm_head.", "classifier.", "qa_outputs.")
    unread: ClassVar[tuple[str, ...]] = ("mpnet.pooler.",)  # a classifier may have one unused
    defaults: ClassVar[Mapping[str, Any]] = {
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512,
    }
    constants: ClassVar[Mapping[str, Any]] = {
        **BertLayout.constants,
        "bos_token_id": None,  # the tokenizer has these ids
        "eos_token_id": None,
        "relative_attention_num_buckets": BINS,
    }
    unwritten: ClassVar[Collection[str]] = ("pooler", "type_vocab_size")
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **BertLayout.held,
        "relative_attention_num_buckets": (BINS,),
    }
    dropout_keys: ClassVar[Mapping[str, str]] = {}

    def derived_fields(self, content: Mapping[str, Any], path: Path) -> dict[str, Any]:
        return {"type_vocab_size": 0}  # files may have one, which transformers does not read


MPNET = System(
    row=MODELS["mpnet"],
    encoder=Mpnet,
    spec=bert_spec,
    objectives={"masked_lm": MaskedLM},
    layout=MpnetLayout,
    is_padded=True,
    vocabulary=BERT.vocabulary,
)
