"""The built corpora of `tests/data`, of which BERT's instances are made."""

import torch

from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.nn.sequences import Inputs, Sequences
from tests.data.conftest import make_shards, shards, some_lengths

__all__ = ["make_shards", "shards", "some_lengths"]


LENGTHS = [11, 7, 7, 4]
MASKED = [[1, 2, 5, 10], [3], [], [0, 3]]


def make_batch(rows: list[int]) -> MaskedBatch:
    chance = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 53, (sum(LENGTHS),), generator=chance).split(LENGTHS)
    labels = torch.randint(0, 53, (sum(LENGTHS),), generator=chance).split(LENGTHS)
    lengths = [LENGTHS[row] for row in rows]
    starts = [sum(lengths[:n]) for n in range(len(rows))]
    positions = [s + p for s, row in zip(starts, rows, strict=True) for p in MASKED[row]]
    wanted = torch.cat([labels[row] for row in rows])
    return MaskedBatch(
        Inputs(torch.cat([ids[row] for row in rows]), Sequences(lengths)),
        torch.tensor(positions, dtype=torch.long),
        wanted[positions],
        torch.tensor([row % 2 for row in rows]),
        torch.tensor(rows),
    )
