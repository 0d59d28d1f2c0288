"""The encoder of BERT, a deep bidirectional Transformer (Devlin et al. 2019).

Section 3: the input is `[CLS] A [SEP] B [SEP]`. The embedding of a token is the normalized sum of
its token, position and segment embeddings; L Transformer layers follow. The pooler, a dense layer
with tanh over [CLS], represents the whole sequence; a configuration may leave it out, and the
segment embeddings too.

Where we differ: sequences are laid end to end without padding (`nn/sequences.py`); one product
computes queries, keys and values; the last layer is computed only at the positions that are read.
Sequences may have a prefix (`Sequences.prefixes`), after which attention is causal, and can be
continued token by token over a KV cache (`GoesOn`).

The left-to-right BERT, an ablation of section 5.1, has causal attention. There [CLS] sees only
itself, so that model has no pooler, and a head reads the last token.

Letters: B sequences, N tokens in all, E width of the embeddings, H hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bertwright.models.bert.config import BertConfig
from bertwright.nn.encoder import EncoderSpec, Transform
from bertwright.nn.init import initialize
from bertwright.nn.transformer.embeddings import Embeddings, make_table
from bertwright.nn.transformer.layers import ACTIVATIONS, layers_of
from bertwright.nn.transformer.stack import CachedStack


class BertEmbeddings(Embeddings):
    """The sum of token, position and segment embeddings, normalized.

    In ELECTRA and ALBERT they have another width than the layers, and a linear layer projects them
    to H.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config.hidden_dropout_prob)
        width = config.embedding_size
        std, segments = config.initializer_range, config.type_vocab_size
        self.token = make_table(config.vocab_size, width, std)
        self.position = make_table(config.max_position_embeddings, width, std)
        self.segment = make_table(segments, width, std) if segments else None
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.project = nn.Linear(width, config.hidden_size) if config.projects_embeddings else None

    @property
    def position_vectors(self) -> Tensor:
        """The vectors of positions 0, 1, 2..., `[T, H]`."""
        return self.position.weight

    def sum(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        x = self.token(ids)
        if self.segment is not None:
            tells = segments is not None and self.segment.num_embeddings > 1
            x = x + (self.segment(segments) if tells else self.segment.weight[0])
        normed: Tensor = self.norm(x + self.position(positions))
        return normed

    def unprojected(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        """Return the embeddings before the projection, `[N, E]`; the arguments are those of
        `forward`."""
        return super().forward(ids, positions, segments)

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        x = self.unprojected(ids, positions, segments)
        projected: Tensor = x if self.project is None else self.project(x)
        return projected


POOLER_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, **ACTIVATIONS}
"""The activations of a pooler by name: BERT's, and those of layers."""


class Pooler(nn.Module):
    """A dense layer with tanh, or another activation, over the first token."""

    def __init__(self, hidden_size: int, activation: str = "tanh") -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.activation = POOLER_ACTIVATIONS[activation]

    def forward(self, first: Tensor) -> Tensor:
        """Return the pooled vectors: vectors of first tokens `[B, H]` -> `[B, H]`."""
        pooled: Tensor = self.activation(self.dense(first))
        return pooled


def bert_spec(config: BertConfig) -> EncoderSpec:
    """Return the specification of an encoder with this configuration."""
    width, eps = config.hidden_size, config.layer_norm_eps
    activation = config.output_act or config.hidden_act
    transform = Transform(width, activation, eps, config.embedding_size)
    return EncoderSpec(
        width=width,
        depth=config.num_hidden_layers,
        vocab_size=config.vocab_size,
        max_length=config.max_length,
        segments=max(1, config.type_vocab_size),
        reads_pairs=True,
        causal=config.causal,
        prefixed=not config.causal,
        pooled=config.pooler,
        default_layer=-2,  # as in bert-as-service: the last layer is specific to the objectives
        reads_last=config.causal,
        before_tokens=None if config.causal else transform,
    )


class Bert(CachedStack):
    """The encoder of BERT, bidirectional or left to right.

    A model of the family overrides the embeddings, the layers or the activation of the pooler.
    """

    embeddings: BertEmbeddings
    pooler: Pooler | None
    pooler_activation: ClassVar[str] = "tanh"
    """The activation of the pooler's dense layer, a name in `POOLER_ACTIVATIONS`."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(bert_spec(config))
        self.config = config
        self.embeddings = self.make_embeddings(config)
        self.layers = self.make_layers(config)
        self.pooler = None
        if config.pooler:
            self.pooler = Pooler(config.hidden_size, self.pooler_activation)

    def make_embeddings(self, config: Any) -> BertEmbeddings:
        """Return the embeddings of a configuration."""
        return BertEmbeddings(config)

    def make_layers(self, config: Any) -> Any:
        """Return the sequence of layers of a configuration."""
        return layers_of(config, causal=config.causal)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize matrices from a truncated normal distribution, biases to 0 and norms to 1
        (appendix A.2)."""
        initialize(self, self.config.initializer_range, generator)
