"""The state of an encoder that reads a fixed number of tokens: the ids of the last C of them.

Letters: B sequences, C tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bertwright.nn.host import send
from bertwright.nn.sequences import Inputs


class LastTokens(NamedTuple):
    """The ids `[B, C]` of the last tokens of B sequences, -1 where there is none."""

    ids: Tensor

    def select(self, rows: Tensor) -> LastTokens:
        return LastTokens(self.ids.index_select(0, send(rows, self.ids.device)))

    def join(self, other: LastTokens) -> LastTokens:
        return LastTokens(torch.cat([self.ids, other.ids]))

    def advanced(self, ids: Tensor) -> LastTokens:
        """Return the state after one more token of each sequence, `[B]`."""
        return LastTokens(torch.cat([self.ids[:, 1:], ids[:, None]], 1))

    def extended(self, inputs: Inputs) -> LastTokens:
        """Return the state after one or more further tokens of each sequence."""
        new = last_tokens(inputs, self.ids.shape[1]).ids
        count = new.shape[1]
        lengths = inputs.sequences.cu_seqlens.diff().long()[:, None]  # [B, 1]
        places = torch.arange(count, device=new.device)  # a part shorter than C leaves the first
        before = self.ids.gather(1, (places + lengths).clamp(max=count - 1))
        return LastTokens(new.where(places >= count - lengths, before))


def last_tokens(inputs: Inputs, count: int) -> LastTokens:
    """Return the last `count` tokens of each sequence of a batch."""
    rows = inputs.sequences.last_tokens(count).flip(1)[inputs.sequences.last]  # [B, C]
    return LastTokens(torch.cat([inputs.ids, inputs.ids.new_full((1,), -1)])[rows])
