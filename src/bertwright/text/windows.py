"""Long texts as windows that share tokens with their neighbours.

Devlin et al. 2019's `run_squad.py` slides a window over a passage and lets the last be what is
left. Here n tokens in windows of at most R that share S are k = ceil((n - S) / (R - S)) windows,
all of one length but for one token, so that none sees almost no context:

    start_i = floor(i (n - S) / k),    stop_i = start_{i + 1} + S

A token that is in several windows is read in the one where it has most context: the larger
min(tokens to its left, tokens to its right), as in `run_squad.py`.

A pair whose texts do not fit beside each other keeps the shorter one whole in every window if it
takes at most half of the room, and the first text if both do; the other is read in windows beside
it. If both take more than half, both are split into the same number of windows, each of half the
room, and the i-th of the one stands beside the i-th of the other. Every token of both is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Int64s

Span = tuple[int, int]
"""Start and stop."""


def split(length: int, room: int, stride: int) -> list[Span]:
    """Windows over `length` (n) tokens, in order, of at most `room` (R), of which neighbours share
    `stride` (S), never more than half of the room. Of no tokens there is one empty window.

    Raises:
        ValueError: no room.
    """
    if room < 1:
        raise ValueError(f"a window has room for {room} tokens; expected 1 or more")
    shared = min(stride, room // 2)
    count = 1 if length <= room else -(-(length - shared) // (room - shared))
    if count == 1:
        return [(0, length)]
    starts = [(length - shared) * number // count for number in range(count + 1)]
    return [(starts[n], starts[n + 1] + shared) for n in range(count)]


def holds(count: int, room: int, stride: int) -> int:
    """Tokens that so many windows hold; the letters are those of `split`."""
    shared = min(stride, room // 2)
    return count * (room - shared) + shared


def split_pair(first: int, second: int, room: int, stride: int) -> list[tuple[Span, Span]]:
    """Windows over a pair of texts of so many tokens: start and stop in the first and in the
    second, `room` tokens of both at most; `stride` as in `split`.

    Raises:
        ValueError: no room for two texts.
    """
    if room < 2:
        raise ValueError(f"a window has room for {room} tokens of a pair; expected 2 or more")
    if first + second <= room:
        return [((0, first), (0, second))]
    half = room // 2
    if first <= half:
        return [((0, first), span) for span in split(second, room - first, stride)]
    if second <= half:
        return [(span, (0, second)) for span in split(first, room - second, stride)]
    rooms = half, room - half
    count = max(len(split(n, part, stride)) for n, part in zip((first, second), rooms, strict=True))
    return list(zip(_full(first, count, rooms[0]), _full(second, count, rooms[1]), strict=True))


def most_context(spans: Sequence[Span], positions: npt.ArrayLike) -> Int64s:
    """Number of the window in which each token has most context; the first if several.

    From the middle between a window's start and the stop of the one before it has more than there.
    """
    middles = [start + stop - 1 for (_, stop), (start, _) in pairwise(spans)]  # twice
    found: Int64s = np.searchsorted(middles, 2 * np.asarray(positions, np.int64))
    return found


def _full(length: int, count: int, room: int) -> list[Span]:
    """Two or more windows of exactly `room` tokens, spread evenly over `length` of as many."""
    starts = [(length - room) * number // (count - 1) for number in range(count)]
    return [(start, start + room) for start in starts]


def window_around(position: int, length: int, room: int) -> Span:
    """At most `room` of `length` tokens with `position` as near the middle as can be."""
    start = max(0, min(position - room // 2, length - room))
    return start, min(length, start + room)


def truncate_pair(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of two texts to keep in `room`.

    Half each, more where the other is short; the odd one is the longer text's, as in transformers,
    and the second's where they are equal.
    """
    half = (room + (first > second)) // 2
    of_first = min(first, max(half, room - second))
    return of_first, min(second, room - of_first)
