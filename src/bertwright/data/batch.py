"""Make the inputs of an encoder from the ids of sequences: laid end to end, without padding.

Sequences are sorted by length, longest first, so that equal lengths are neighbours
(`nn/sequences.py`). Letters: B sequences, N tokens in all, T a sequence's length, C ids of a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from bertwright.arrays import Int64s
from bertwright.nn.sequences import Inputs, Sequences


def inputs_of(
    ids: Int64s, lengths: Int64s, segments: Int64s | None = None, prefixes: Int64s | None = None
) -> Inputs:
    """Return the inputs of an encoder on the host. They share the memory of the arrays.

    Args:
        ids: `[N]`, or `[N, C]` if a token has several ids.
        lengths: `[B]`.
        segments: `[N]`: 0 in the first text of a pair, 1 in the second; None: all 0.
        prefixes: `[B]`, the length of each sequence's source (`Sequences.prefixes`).
    """
    sequences = Sequences(lengths.tolist(), "cpu", None if prefixes is None else prefixes.tolist())
    types = None if segments is None else torch.from_numpy(segments)
    return Inputs(torch.from_numpy(ids), sequences, types)


def collate(
    sequences: Sequence[Any], segments: Sequence[Sequence[int]] | None = None
) -> tuple[Inputs, Int64s]:
    """Lay B sequences of `[T]` or `[T, C]` ids, and their segments, end to end, longest first.

    Returns:
        The inputs, and the index of each of their sequences in `sequences`, `[B]`
        (`results[order] = rows`).
    """
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    order = np.argsort(-lengths, kind="stable").astype(np.int64)
    ids = _end_to_end(sequences, order)
    types = None if segments is None else _end_to_end(segments, order)
    return inputs_of(ids, lengths[order], types), order


def make_inputs(
    rows: list[int],
    ids: Sequence[Sequence[int]],
    segments: Sequence[Sequence[int]] | None,
    device: torch.device,
) -> tuple[list[int], Inputs]:
    """Return the numbers of some sequences, longest first, and their inputs for the encoder on a
    device.
    """
    inputs, order = collate(
        [ids[row] for row in rows], None if segments is None else [segments[row] for row in rows]
    )
    return [rows[number] for number in order], inputs.to(device)


def _end_to_end(sequences: Sequence[Any], order: Int64s) -> Int64s:
    arrays = [np.asarray(sequences[row], np.int64) for row in order]
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def token_batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of sequences, longest first, in batches of at most `most_tokens` tokens. A
    longer sequence is a batch of its own.
    """
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
