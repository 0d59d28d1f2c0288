"""Bidirectional LSTM (Hochreiter and Schmidhuber 1997; Graves and Schmidhuber 2005).

One layer, both directions side by side, over sequences of any lengths, packed: no step is computed
for a place that a sequence has not. Float32, also under autocast: a recurrence adds up rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from bertwright.nn.ragged import pack


class BiLstm(nn.Module):
    """Each row sees the rows of its sequence before and behind it."""

    def __init__(self, input: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.lstm = nn.LSTM(input, size, bidirectional=True)

    def forward(self, x: Tensor, counts: Sequence[int]) -> Tensor:
        """Read each sequence from both ends.

        Args:
            x: `[W, F]`, the sequences end to end.
            counts: rows of each sequence, W in all.

        Returns:
            `[W, 2 size]` float32: the states from the left, then those from the right.
        """
        packing = pack(counts, x.device)
        if not packing.sizes:
            return x.new_zeros(0, 2 * self.size, dtype=torch.float32)
        x = x.to(next(self.parameters()).dtype)  # float32, unless the whole model is bfloat16
        packed = PackedSequence(x[packing.order], torch.tensor(packing.sizes))
        with torch.autocast(x.device.type, enabled=False):
            states: PackedSequence = self.lstm(packed)[0]
        return states.data[packing.inverse].float()
