"""Sequences laid end to end: what an encoder reads. There is no padding (docs/architecture.md).

Sequences are sorted by length, longest first, so that equal lengths lie side by side. Letters: B
sequences, N tokens in all, T a sequence's length, C ids of a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bertwright.arrays import Int64s


@dataclass(frozen=True)
class InputArrays:
    """What an encoder reads, as arrays of NumPy; on a device it is `nn.sequences.Inputs`."""

    ids: Int64s
    """`[N]`; `[N, C]` where a token is several ids."""
    lengths: Int64s
    """`[B]`, falling."""
    segments: Int64s | None = None
    """`[N]`: 0 in the first text of a pair, 1 in the second; None: all 0."""
    prefixes: Int64s | None = None
    """`[B]`: tokens of each one's source, where a target follows it (`Sequences.prefixes`)."""


class Batch(Protocol):
    """Any batch before it goes to a device: a frozen dataclass of arrays."""

    @property
    def inputs(self) -> InputArrays:
        """What the encoder reads of it."""


def collate(
    sequences: Sequence[Any], segments: Sequence[Sequence[int]] | None = None
) -> tuple[InputArrays, Int64s]:
    """Lay B sequences of `[T]` or `[T, C]` ids, and their segments, end to end, longest first.

    Returns:
        The inputs, and `[B]`: which of the given sequences each is (`results[order] = rows`).
    """
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    order = np.argsort(-lengths, kind="stable")
    return InputArrays(
        _end_to_end(sequences, order),
        lengths[order],
        None if segments is None else _end_to_end(segments, order),
    ), order.astype(np.int64)


def _end_to_end(sequences: Sequence[Any], order: Int64s) -> Int64s:
    arrays = [np.asarray(sequences[row], np.int64) for row in order]
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def token_batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Indices of sequences, longest first, in batches of at most so many tokens (or of one)."""
    rows: list[int] = []
    tokens = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if rows and tokens + lengths[row] > most_tokens:
            yield rows
            rows, tokens = [], 0
        rows.append(row)
        tokens += lengths[row]
    if rows:
        yield rows
