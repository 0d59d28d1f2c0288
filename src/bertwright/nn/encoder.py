"""The interface of every encoder: it turns ids into one vector per token and layer.

Letters: B sequences, N tokens in all, R tokens at which the last layer is read, H hidden, L layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from bertwright.errors import ConfigError
from bertwright.nn.sequences import Inputs, Sequences


@dataclass(frozen=True)
class Transform:
    """The sizes of `norm(activation(x W + b))`, a step before the scores of a head
    (`nn/outputs/transform.py`)."""

    width: int
    """H."""
    activation: str
    """A name in `nn.transformer.layers.ACTIVATIONS`."""
    eps: float
    """The number that the norm adds to the variance."""
    output: int | None = None
    """The width after the dense layer; None: H."""
    bias: bool = True
    """Whether the dense layer and the norm have biases."""


@dataclass(frozen=True)
class EncoderSpec:
    """The properties of an encoder that code outside of its system needs: its shape, what it reads,
    what its vectors are good for, and the heads that it was published with."""

    # Its shape
    width: int
    """H, the width of a token's vector in the last layer."""
    depth: int
    """L, the number of layers above the embeddings; 0: static word vectors."""
    vocab_size: int
    """V, the number of ids of the vocabulary; an encoder that `SpellsWords` reads further ids."""
    own_widths: tuple[int, ...] = ()
    """The widths of layers 0 to L; empty: all are H."""
    pooled: bool = False
    """Whether it computes a vector for each sequence (`Encoded.pooled`)."""

    # What it reads
    max_length: int | None = None
    """The maximum length of a sequence, in tokens; None: any length."""
    segments: int = 1
    """The number of segments, which tell the texts of a pair apart beside the tokens between them;
    1: there are none."""
    reads_pairs: bool = False
    """Whether it reads the two texts of a pair as one sequence."""
    causal: bool = False
    """Whether a token's vector depends only on that token and the ones before it."""
    prefixed: bool = False
    """Whether its attention can follow `Sequences.prefixes`: bidirectional over a source, then
    causal."""

    # Its vectors, as `embed` and heads on frozen vectors use them by default
    has_vectors: bool = True
    """Whether the outputs of the encoder are vectors that are useful for other objectives than its
    own."""
    default_layer: int = -1
    """The layer that `embed` reads by default: 0 the embeddings, 1 to L, negative from the top."""
    default_normalize: bool = False
    """Whether `embed` scales vectors to length 1 by default."""
    averages_begin: bool = True
    """Whether mean pooling includes the token that begins a text. False where training gave that
    token no vector."""
    averages_end: bool = True
    """Whether mean pooling includes the token that ends a text. False for a language model that
    predicts this token but never reads it."""
    averages_unknown: bool = True
    """Whether mean pooling includes unknown words. False where training left them out."""

    # Its heads
    feature_based: bool = False
    """Whether `finetune` by default leaves the encoder as it is and trains a head on its vectors,
    as word vectors and ELMo were published; otherwise the encoder is trained too."""
    reads_last: bool = False
    """Whether fine-tuned heads read the last token, which alone has seen all of a text (causal
    encoders). Frozen vectors use the mean of all tokens."""
    before_scores: Transform | None = None
    """The dense layer, activation and norm that a head over the last layer applies before its
    scores, as the model was published; None: it has none. A head over a pooler never applies
    them."""
    before_tokens: Transform | None = None
    """The same before the scores of a new head that predicts tokens; None: it has none."""

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of layers 0 to L."""
        return self.own_widths or (self.width,) * (self.depth + 1)

    def require_vectors(self) -> None:
        """Raise ConfigError if the encoder has no vectors."""
        if not self.has_vectors:
            raise ConfigError(
                "this model has no vectors, only probabilities: use it with bertwright perplexity "
                "or bertwright generate; for vectors use another model, such as word2vec"
            )


@dataclass(frozen=True)
class Encoded:
    """The output of an encoder: one vector per token, and on request those of every layer."""

    sequences: Sequences
    """B lengths that sum to N."""
    last: Tensor
    """`[N, H]`, the highest layer computed; `[R, H]` if it was computed at `positions` only."""
    layers: tuple[Tensor, ...] = ()
    """The embeddings and the layers in order, `[N, spec.widths[l]]` each; empty unless
    requested."""
    pooled: Tensor | None = None
    """`[B, H]`, a vector for each sequence; None where the encoder has no pooler."""
    positions: Tensor | None = None
    """`[R]`, the positions in N at which `last` was computed; None: all."""

    def at(self, positions: Tensor) -> Tensor:
        """Return the vectors of the top layer at `positions` `[K]` in N, `[K, H]`.

        If it was computed at some positions only, `positions` must be the tensor that the encoder
        was given. Objects are compared, because to compare values the host would wait for a GPU.
        """
        if self.positions is None:
            return self.last.index_select(0, positions)
        if self.positions is not positions and len(self.positions) + len(positions):
            raise ValueError(
                "the top layer was computed at other positions; pass these to the encoder"
            )
        return self.last


class Encoder(nn.Module):
    """Computes vectors from ids. It has no loss; `spec` describes how encoders differ."""

    __call__: Callable[..., Encoded]
    spec: EncoderSpec
    pooler: nn.Module | None
    """Computes `Encoded.pooled`; None where `spec.pooled` is False."""

    def __init__(self, spec: EncoderSpec) -> None:
        super().__init__()
        self.spec = spec
        self.pooler = None

    def forward(
        self,
        inputs: Inputs,
        *,
        top: int | None = None,
        keep_layers: bool = False,
        positions: Tensor | None = None,
    ) -> Encoded:
        """Encode a batch.

        Args:
            inputs: the sequences.
            top: the highest layer to compute, 0 the embeddings; None: all layers and the pooler.
            keep_layers: return every layer, not only the last.
            positions: `[R]`, the positions in N at which the last layer is needed, apart from
                those of the pooler; None: all. An encoder may compute all of them anyway, and then
                leaves `Encoded.positions` None. Not allowed together with `top` or `keep_layers`.

        Returns:
            `last` `[N, H]` or `[R, H]`; `layers` of `[N, spec.widths[l]]`; `pooled` `[B, H]` if the
            encoder has a pooler and all layers were computed.
        """
        if top is not None and not 0 <= top <= self.spec.depth:
            raise ValueError(f"top is {top}; this encoder has layers 0 to {self.spec.depth}")
        layers = self.compute(inputs, top)
        return Encoded(inputs.sequences, layers[-1], tuple(layers) if keep_layers else ())

    def compute(self, inputs: Inputs, top: int | None) -> list[Tensor]:
        """Return the layers up to `top`, embeddings first.

        An encoder without a pooler that computes its last layer at all positions overrides this
        method; others override `forward`.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    @property
    def device(self) -> torch.device:
        """The device of its parameters."""
        return next(chain(self.parameters(), self.buffers())).device

    def stages(self) -> Sequence[nn.Module]:
        """Return the embeddings and layers 1 to L: the units of freezing, of learning rates by
        depth, of sharding and of compiling."""
        raise NotImplementedError(f"{type(self).__name__} defines no stages")

    def token_embedding(self) -> nn.Embedding | None:
        """Return the table of token vectors `[V, H]`; None where a token is not one id.

        By default it is the first stage, if that is an embedding.
        """
        first = next(iter(self.stages()), None)
        return first if isinstance(first, nn.Embedding) else None

    def flops(self, lengths: Sequence[int], last_rows: int) -> float:
        """Return the floating-point operations of a forward and a backward pass over one batch.

        Only matrix products count: two operations per multiply-add, and the backward pass twice the
        forward pass (Kaplan et al. 2020, section 2.1). By default each weight of a matrix above the
        first stage is one multiply-add per token.

        Args:
            lengths: the lengths of the B sequences.
            last_rows: the number of tokens for which the last layer is computed.
        """
        parameters = (p for stage in self.stages()[1:] for p in stage.parameters())
        return 6.0 * sum(p.numel() for p in parameters if p.dim() == 2) * sum(lengths)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize all parameters as published, in place."""
        raise NotImplementedError(f"{type(self).__name__} defines no reset_parameters")


@runtime_checkable
class HasAttentionMaps(Protocol):
    """An encoder with self-attention layers."""

    def attention_map(self, number: int, x: Tensor) -> Tensor:
        """Return the attention probabilities of one sequence in layer `number`, from 1.

        x `[T, H]`, the vectors of the layer below -> `[A, T, T]` float32, whose rows sum to 1.
        """


class FurtherWords(Protocol):
    """The words outside of a vocabulary, by their ids (`text/tokenizer/further_words.py`)."""

    def __len__(self) -> int:
        """Return the number of words."""

    def word_of(self, id: int) -> str:
        """Return the word of an id."""


@runtime_checkable
class SpellsWords(Protocol):
    """An encoder that computes the vector of a word from its characters.

    A word outside the vocabulary has an id from V on, and the encoder reads its spelling from
    `further_words`.
    """

    further_words: FurtherWords | None
    """The words that ids from V on stand for; None: there are no such ids."""

    def can_spell(self, word: str) -> bool:
        """Return whether it computes a vector for a word."""


@runtime_checkable
class GoesOn(Protocol):
    """An encoder that can continue sequences from a state: a KV cache, the states of
    LSTMs, or the last tokens.

    A causal encoder continues a text; BERT continues a source, which it reads bidirectionally. The
    state has the methods that `decoding/search.py` describes.
    """

    def begin(self, inputs: Inputs) -> tuple[Tensor, Any]:
        """Read B sequences. Return the last layer at the last token of each `[B, H]`, and the
        state."""

    def advance(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read one more token `[B]` of each sequence. Return the last layer at these tokens
        `[B, H]`, and the new state."""

    def extend(self, inputs: Inputs, state: Any) -> tuple[Tensor, Any]:
        """Read one or more further tokens of each sequence, as `advance` would read them one by
        one.

        With a causal encoder, `begin` and `extend` over the parts of a sequence equal `begin` over
        the whole. An encoder that reads a source bidirectionally must be given the whole source by
        `begin`, because each of its tokens sees all others; what follows can be extended.

        Args:
            inputs: the further tokens of the B sequences of the state, in its order. Without
                segments, they have the segment of the tokens that `advance` reads.
            state: the state after the tokens before.

        Returns:
            The last layer at each last token `[B, H]`, and the new state.
        """
