"""The interface of every encoder: ids in, one vector a token and layer out.

Letters: B sequences, N tokens in all, R tokens at which the last layer is read, H hidden, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from bertwright.errors import ConfigError
from bertwright.nn.sequences import Inputs, Sequences


@dataclass(frozen=True)
class EncoderSpec:
    """What code that knows no model must know of an encoder."""

    width: int
    """H, numbers of a token's vector in the last layer."""
    depth: int
    """L, layers above the embeddings; 0: static word vectors."""
    vocab_size: int
    """V, ids it knows."""
    max_length: int | None = None
    """Tokens of the longest sequence it reads; None: any length."""
    segments: int = 1
    """Kinds of segment; with 1 it reads no pairs."""
    activation: str = "gelu"
    """The activation of its layers, a name in `nn.transformer.ACTIVATIONS`."""
    norm_eps: float = 1e-12
    """Added to the variance in its norms."""
    causal: bool = False
    """Whether a token's vector depends on that token and the ones before it alone."""
    prefixed: bool = False
    """Whether it reads `Sequences.prefixes`: a source both ways, then left to right."""
    pooled: bool = False
    """Whether it gives a vector for each sequence (`Encoded.pooled`)."""
    default_layer: int = -1
    """The layer that `embed` reads by default: 0 the embeddings, 1 to L, negative from the top."""
    default_pooling: str = "mean"
    """How `embed` makes one vector of a sequence by default."""
    own_widths: tuple[int, ...] = ()
    """Widths of layers 0 to L where they are not all H."""
    averages_begin: bool = True
    """Whether a mean over the tokens of a text has the one for its begin: not where training made
    no vector of it."""
    averages_end: bool = True
    """The same of the token for its end, which a model from left to right predicts but never
    reads."""
    averages_unknown: bool = True
    """The same of unknown words, which training may have left out of the text."""
    has_vectors: bool = True
    """Whether what it gives for a token is a vector, of use beside its own objective."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of a token's vector in layers 0 to L."""
        return self.own_widths or (self.width,) * (self.depth + 1)

    def require_vectors(self) -> None:
        """Raise ConfigError where there are none."""
        if not self.has_vectors:
            raise ConfigError(
                "this model has no vectors, only probabilities: it scores (bertwright "
                "perplexity) and generates; for vectors take another model, such as word2vec"
            )


@dataclass(frozen=True)
class Encoded:
    """What an encoder computed: one vector a token, end to end, and the layers below on request."""

    sequences: Sequences
    """B lengths that sum to N."""
    last: Tensor
    """`[N, H]`, the highest layer computed; `[R, H]` if it was computed at `positions` alone."""
    layers: tuple[Tensor, ...] = ()
    """Embeddings first, top last, `[N, H]` or as `spec.widths` has it; empty unless requested."""
    pooled: Tensor | None = None
    """`[B, H]`, a vector for each sequence, if the encoder has one."""
    positions: Tensor | None = None
    """`[R]`, the positions in N that `last` was computed at; None: at all."""

    def at(self, positions: Tensor) -> Tensor:
        """The top layer's vectors at `positions` `[K]` in N: `[K, H]`

        Raises:
            ValueError: the top layer was computed at other positions.
        """
        if self.positions is None:
            return self.last.index_select(0, positions)
        if self.positions is not positions and len(self.positions) + len(positions):
            raise ValueError(
                "the top layer was computed at other positions; pass these to the encoder"
            )
        return self.last


class Encoder(nn.Module):
    """Ids -> vectors. It knows no loss; `spec` says what differs between encoders."""

    spec: EncoderSpec
    pooler: nn.Module | None
    """What computes `Encoded.pooled`; None where `spec.pooled` is False."""

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
            top: the highest layer to compute, 0 the embeddings; None: all, and the pooler.
            keep_layers: return every layer, not only the last.
            positions: `[R]`, where in N the last layer is read, beside the pooler; None:
                everywhere. An encoder may compute it elsewhere too, and then leaves
                `Encoded.positions` None. Not together with `top` or `keep_layers`.

        Returns:
            `last` `[N, H]` or `[R, H]`, `layers` of `[N, spec.widths[l]]`, `pooled` `[B, H]` if the
            encoder has a pooler and all layers ran.

        Raises:
            ValueError: a sequence longer than `spec.max_length`, or no layer `top`.
        """
        if top is not None and not 0 <= top <= self.spec.depth:
            raise ValueError(f"top is {top}; this encoder has layers 0 to {self.spec.depth}")
        layers = self.compute(inputs, top)
        return Encoded(inputs.sequences, layers[-1], tuple(layers) if keep_layers else ())

    def compute(self, inputs: Inputs, top: int | None) -> list[Tensor]:
        """The layers up to `top`, embeddings first: all there is to say of an encoder without a
        pooler that computes its last layer everywhere. Others have a `forward` of their own."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(chain(self.parameters(), self.buffers())).device

    def stages(self) -> Sequence[nn.Module]:
        """The embeddings, then layer 1 to L: the units of depth, freezing, sharding, compiling."""
        raise NotImplementedError(f"{type(self).__name__} defines no stages")

    def token_embedding(self) -> nn.Embedding | None:
        """The table of token vectors `[V, H]`, the first stage if that is one; None where a token
        is not one id."""
        first = next(iter(self.stages()), None)
        return first if isinstance(first, nn.Embedding) else None

    def flops(self, lengths: Sequence[int], last_rows: int) -> float:
        """Floating-point operations of a forward and a backward pass over one batch.

        Matrix products alone, two operations a multiply-add, the backward pass twice the forward
        (Kaplan et al. 2020, section 2.1). Unless it says otherwise, each weight of a matrix of
        the layers above the first stage is one a token.

        Args:
            lengths: of the B sequences.
            last_rows: tokens that the last layer is computed for.
        """
        weights = (each for stage in self.stages()[1:] for each in stage.parameters())
        return 6.0 * sum(each.numel() for each in weights if each.dim() == 2) * sum(lengths)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize all parameters as published, in place."""
        raise NotImplementedError(f"{type(self).__name__} defines no reset_parameters")


@runtime_checkable
class HasAttentionMaps(Protocol):
    """An encoder whose layers attend."""

    def attention_map(self, number: int, x: Tensor) -> Tensor:
        """How much each token of one sequence attends to each, in layer `number` (from 1).

        x `[T, H]`, the vectors of the layer below -> `[A, T, T]` float32, whose rows sum to 1.
        """


@runtime_checkable
class GoesOn(Protocol):
    """An encoder that goes on, from left to right, from what it has read: a causal one from a text,
    BERT from a source that it has read both ways.

    Its states are of one class, as `decoding/search.py` says.
    """

    def begin(self, inputs: Inputs) -> tuple[Tensor, Any]:
        """Read B sequences: the last layer at each one's last token `[B, H]`, and the state."""

    def advance(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read a token more of each sequence, `[B]`: the last layer there `[B, H]`, the state."""
