"""What every encoder of the lineage gives: a vector for each token."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bertwright.nn.sequences import Sequences


@dataclass(frozen=True)
class Encoded:
    """What an encoder saw: one vector a token, end to end, and the layers below if asked for."""

    sequences: Sequences
    """B lengths that sum to N."""
    last: Tensor
    """`[N, H]`, the top layer that was computed; `[R, H]` if it was computed for some tokens."""
    layers: tuple[Tensor, ...] = ()
    """Embeddings first, top last, each `[N, H]`; empty unless asked for."""
    pooled: Tensor | None = None
    """`[B, H]`, a vector for each sequence, if the encoder has one."""
    places: Tensor | None = None
    """`[R]`, where in N the tokens stand that `last` is of; None: it is of all."""

    def at(self, places: Tensor) -> Tensor:
        """The top layer's vectors of the tokens at `places` `[K]` in N: `[K, H]`

        Raises:
            ValueError: the top layer was computed for other tokens than these.
        """
        if self.places is None:
            return self.last.index_select(0, places)
        if self.places is not places and len(self.places) + len(places):
            raise ValueError("the top layer was computed for other tokens; ask for these")
        return self.last
