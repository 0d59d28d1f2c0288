"""LSTMs (Hochreiter and Schmidhuber 1997) over sequences of any lengths, packed: no step is
computed for a position that a sequence does not have.

Both directions (Graves and Schmidhuber 2005), one, or one from each sequence's end; a projection of
the state (Sak et al. 2014), as ELMo has it. Float32, also under autocast: a recurrence accumulates
rounding. A sequence's state begins at 0 and is not carried on: a step of training stays a function
of its batch.

Letters: W rows in all, F width of a row, P width of a state (its projection, if there is one).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from bertwright.nn.ragged import pack

Direction = Literal["forward", "backward", "both"]


class Lstm(nn.Module):
    """Layers of LSTM, each row seeing those of its sequence before it, after it, or both."""

    def __init__(
        self,
        input: int,
        size: int,
        direction: Direction = "forward",
        layers: int = 1,
        projection: int = 0,
        dropout: float = 0.0,
    ) -> None:
        """Build it.

        Args:
            input: F.
            size: width of a cell.
            direction: which rows a row sees.
            layers: on top of each other.
            projection: P of each direction; 0: the size.
            dropout: between layers.
        """
        super().__init__()
        self.size = projection or size
        self.direction = direction
        self.lstm = nn.LSTM(
            input,
            size,
            layers,
            bidirectional=direction == "both",
            proj_size=projection,
            dropout=dropout,
        )

    def forward(self, x: Tensor, counts: Sequence[int]) -> Tensor:
        """Read each sequence.

        Args:
            x: `[W, F]`, the sequences end to end.
            counts: rows of each sequence, W in all.

        Returns:
            `[W, P]` float32, or `[W, 2 P]`: the states from the left, then those from the right.
        """
        packing = pack(counts, x.device)
        if not packing.sizes:
            width = self.size * (2 if self.direction == "both" else 1)
            return x.new_zeros(0, width, dtype=torch.float32)
        order, inverse = packing.order, packing.inverse
        if self.direction == "backward":
            mirror = _mirror(counts, x.device)
            order, inverse = mirror[order], inverse[mirror]
        x = x.to(next(self.parameters()).dtype)  # float32, unless the whole model is bfloat16
        packed = PackedSequence(x[order], torch.tensor(packing.sizes))
        with torch.autocast(x.device.type, enabled=False):
            states: PackedSequence = self.lstm(packed)[0]
        found = states.data[inverse]
        return found.to(torch.promote_types(found.dtype, torch.float32))


class BiLstm(Lstm):
    """One layer, both directions."""

    def __init__(self, input: int, size: int) -> None:
        super().__init__(input, size, "both")


def _mirror(counts: Sequence[int], device: torch.device) -> Tensor:
    """`[W]`: the row as far from its sequence's end as each is from its start."""
    lengths = torch.tensor(counts, dtype=torch.long)
    ends = lengths.cumsum(0)
    first_and_last = (2 * ends - lengths - 1).repeat_interleave(lengths)
    return (first_and_last - torch.arange(int(ends[-1]))).to(device, non_blocking=True)
