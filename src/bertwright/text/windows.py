"""Divide long texts into windows that overlap with their neighbours.

`run_squad.py` of Devlin et al. 2019 slides a window over a passage, and its last window holds what
is left. Here n tokens are divided into k = ceil((n - S) / (R - S)) windows of at most R tokens,
which share S tokens. Their lengths differ by at most one token, so that no window is left with
almost no context:

    start_i = floor(i (n - S) / k),    stop_i = start_{i + 1} + S

A token that is in several windows is read in the one where it has the most context: the larger
min(tokens to its left, tokens to its right), as in `run_squad.py`.

If a pair of texts does not fit into a window, the shorter text is whole in every window if it takes
at most half of the room (the first text if both do), and the other is divided. If both take more
than half, both are divided into the same number of windows, each of half the room, and the i-th
window of the one is paired with the i-th of the other. Every token of both is read.
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
    """Return windows of at most `room` (R) tokens over `length` (n) tokens, in order.

    Neighbours share `stride` (S) tokens, but never more than half of the room. No tokens give one
    empty window.

    Raises:
        ValueError: there is no room.
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
    """Return the number of tokens that `count` windows hold; see `split`."""
    shared = min(stride, room // 2)
    return count * (room - shared) + shared


def split_pair(first: int, second: int, room: int, stride: int) -> list[tuple[Span, Span]]:
    """Return windows over a pair of texts: start and stop in the first and in the second text.

    `first` and `second` are the lengths; a window has at most `room` tokens of both; `stride` is as
    in `split`.

    Raises:
        ValueError: there is no room for two texts.
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
    """Return the index of the window in which each token has the most context; the first one if
    several windows give the same.

    A token has more context in a window than in the previous one from the middle between the
    window's start and the previous window's stop on.
    """
    doubled_middles = [start + stop - 1 for (_, stop), (start, _) in pairwise(spans)]
    windows: Int64s = np.searchsorted(doubled_middles, 2 * np.asarray(positions, np.int64))
    return windows


def _full(length: int, count: int, room: int) -> list[Span]:
    """Return `count` (two or more) windows of exactly `room` tokens, spread evenly over `length`
    tokens.
    """
    starts = [(length - room) * number // (count - 1) for number in range(count)]
    return [(start, start + room) for start in starts]


def window_around(position: int, length: int, room: int) -> Span:
    """Return a window of at most `room` of `length` tokens with `position` as near its middle as
    possible.
    """
    start = max(0, min(position - room // 2, length - room))
    return start, min(length, start + room)


def truncate_pair(first: int, second: int, room: int) -> tuple[int, int]:
    """Return how many tokens of two texts to keep in `room`.

    Each text keeps half, or more if the other is short. An odd token goes to the longer text, as in
    transformers, or to the second if they are equal.
    """
    half = (room + (first > second)) // 2
    of_first = min(first, max(half, room - second))
    return of_first, min(second, room - of_first)
