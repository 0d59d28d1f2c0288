"""The encoder of MPNet: BERT's layers with a bias on attention scores that depends on distance.

Song et al. 2020, section 4.1; Raffel et al. 2020, section 2.1. One table for all layers holds a
number for each attention head and each of 32 bins of distances: 16 for keys before the query and 16
for keys after it. Of each 16, 8 are single distances, and the others grow logarithmically up to
128.

As in transformers, the token with the id 1, which is the padding of published vocabularies, has its
own row of the position embeddings and does not count as a position, wherever it stands. Positions
of other tokens begin at row 2.

Letters: N tokens, H hidden, A heads, T and S tokens of a sequence of queries and of its keys.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import torch
from torch import Tensor, nn

from bertwright.models.bert.encoder import BertEmbeddings, Pooler, bert_spec
from bertwright.models.mpnet.config import MpnetConfig
from bertwright.nn.init import initialize
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.nn.transformer.attention import SelfAttention, attend_by_distance
from bertwright.nn.transformer.embeddings import make_table
from bertwright.nn.transformer.layers import TransformerLayer, layers_of
from bertwright.nn.transformer.stack import CachedStack

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


class RelativeAttention(SelfAttention):
    """Attention with the bias of a table that all layers share."""

    table: tuple[nn.Embedding]
    """The table of biases. The tuple hides it from `parameters()`, because it is a parameter of the
    embeddings."""

    def attend(self, parts: list[Tensor], sequences: Sequences) -> Tensor:
        longest = sequences.longest
        distances = torch.arange(1 - longest, longest, device=sequences.device)
        values = self._bias_at(distances)  # [A, 2 T - 1]
        bias = values.unfold(1, longest, 1).flip(1)  # [A, T, T]: row i begins at the distance -i
        return attend_by_distance(parts, sequences, bias, self.dropout if self.training else 0.0)

    @property
    def bias_key(self) -> Hashable:
        return id(self.table[0])

    def bias_between(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self._bias_at(keys - queries[:, None])

    def _bias_at(self, distances: Tensor) -> Tensor:
        """Return the bias of each head at distances of any shape `[...]`, `[A, ...]`."""
        bias: Tensor = self.table[0](bin_of(distances))
        return bias.movedim(-1, 0)


class MpnetEmbeddings(BertEmbeddings):
    """The normalized sum of token and position embeddings, and the table of distances."""

    def __init__(self, config: MpnetConfig) -> None:
        super().__init__(config)
        self.distance = make_table(BINS, config.num_attention_heads, config.initializer_range)


class Mpnet(CachedStack):
    """The encoder of MPNet."""

    embeddings: MpnetEmbeddings

    def __init__(self, config: MpnetConfig) -> None:
        super().__init__(bert_spec(config))
        self.config = config
        self.embeddings = MpnetEmbeddings(config)
        self.layers = layers_of(config)
        for layer in self.layers:
            assert isinstance(layer, TransformerLayer)
            dropout = config.attention_probs_dropout_prob
            heads = config.num_attention_heads
            layer.attention = RelativeAttention(config.hidden_size, heads, dropout)
            layer.attention.table = (self.embeddings.distance,)
        self.pooler = Pooler(config.hidden_size) if config.pooler else None

    def embed(self, inputs: Inputs) -> Tensor:
        sequences, ids = inputs.sequences, inputs.ids
        self._check(sequences.longest)
        counted = ids != PADDING
        before = counted.cumsum(0)  # of the whole batch, up to each token
        first = sequences.first
        start = (before - counted.long()).index_select(0, first)
        positions = (before - start.index_select(0, sequences.index)) * counted + PADDING
        x: Tensor = self.embeddings(ids, positions)
        return x

    def embed_rows(self, ids: Tensor, segments: Tensor) -> Tensor:
        counted = (ids != PADDING).long()
        x: Tensor = self.embeddings(ids, counted.cumsum(1) * counted + PADDING)
        return x

    def embed_further(self, ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        x: Tensor = self.embeddings(ids, positions + PADDING + 1)
        return x

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize matrices from a truncated normal distribution, biases to 0 and norms to 1."""
        initialize(self, self.config.initializer_range, generator)
