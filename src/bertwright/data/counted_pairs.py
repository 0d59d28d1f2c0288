"""Count how often words occur near each other, in bounded memory.

Pennington, Socher, Manning 2014, "GloVe", section 4.2: X_ij is the sum of 1/d over all pairs of
words i and j that stand d words apart, 1 <= d <= `window`, on either side, so that X is symmetric.
Only pairs i <= j are counted. The pairs of each chunk of text are sorted by their key i V + j, and
equal keys are summed. Entries that exceed the memory are written to disk as a sorted run, and the
runs are merged range by range.

Letters: V vocabulary, E entries (pairs that occur).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from bertwright.arrays import Float64s, Int32s, Int64s, write_array
from bertwright.data.randomness import make_key, mix

Entries = tuple[Int64s, Float64s]
"""`[E]` keys in ascending order, and the sum of each."""
BYTES = 16  # the size of an entry


def sum_entries(parts: list[Entries]) -> Entries:
    """Return the entries of several parts, sorted by key, with the values of equal keys summed."""
    keys, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[first], np.add.reduceat(values, first) if len(first) else values


def chunk_entries(tokens: Int32s, ends: Int64s, window: int, size: int) -> Entries:
    """Return the entries of a chunk of text. Only words of the same document form pairs.

    Args:
        tokens: `[N]`, the ids, without words that are not trained.
        ends: the positions in the chunk at which documents end.
        window: the largest distance of the words of a pair.
        size: V.
    """
    owner = np.searchsorted(ends, np.arange(len(tokens)), side="right")
    ids = tokens.astype(np.int64)
    parts = [(np.empty(0, np.int64), np.empty(0))]
    for distance in range(1, min(window, len(ids) - 1) + 1):
        near = owner[:-distance] == owner[distance:]
        one, other = ids[:-distance][near], ids[distance:][near]
        keys = np.minimum(one, other) * size + np.maximum(one, other)
        parts.append((keys, np.full(len(keys), 1 / distance)))
    return sum_entries(parts)


class CountedPairs:
    """Sums entries in memory, and writes them to a folder as sorted runs if they are too many."""

    def __init__(self, folder: Path, memory: int) -> None:
        """Initialize without entries.

        Args:
            folder: the folder of the runs.
            memory: the approximate number of bytes that entries may take; sorting takes three times
                as much.
        """
        self.folder, self._most = folder, max(1, memory // BYTES)
        self._parts: list[Entries] = []
        self._runs: list[Entries] = []

    @property
    def total(self) -> int:
        """The number of entries. A key that occurs in several parts is counted once for each."""
        return sum(len(keys) for keys, _ in (*self._runs, *self._parts))

    def add(self, entries: Entries) -> None:
        """Add the pairs of a chunk of text."""
        self._parts.append(entries)
        if sum(len(keys) for keys, _ in self._parts) > self._most:
            self._parts = [sum_entries(self._parts)]
            if len(self._parts[0][0]) > self._most // 2:
                self._write_run(*self._parts.pop())

    def _write_run(self, keys: Int64s, values: Float64s) -> None:
        name = f"run-{len(self._runs)}"
        for column, array in (("keys", keys), ("values", values)):
            with (self.folder / f"{name}.{column}").open("wb") as file:
                write_array(file, array)
        self._runs.append(
            (
                np.memmap(self.folder / f"{name}.keys", np.int64, "r"),
                np.memmap(self.folder / f"{name}.values", np.float64, "r"),
            )
        )

    def merged(self) -> Iterator[Entries]:
        """Yield all entries in the order of their keys, one range of keys at a time."""
        parts = [*self._runs, *([sum_entries(self._parts)] if self._parts else [])]
        step = max(1, self.total // 100_000)
        sample = np.sort(np.concatenate([keys[::step] for keys, _ in parts]))
        ranges = -(-self.total // self._most)
        limits = sample[[len(sample) * n // ranges for n in range(1, ranges)]]
        starts = [0] * len(parts)
        for limit in [*limits.tolist(), np.iinfo(np.int64).max]:
            stops = [int(np.searchsorted(keys, limit)) for keys, _ in parts]
            own = zip(parts, starts, stops, strict=True)
            yield sum_entries([(keys[a:b], values[a:b]) for (keys, values), a, b in own])
            starts = stops

    def shuffled(self, seed: int) -> list[tuple[Path, Path]]:
        """Write each entry to a random one of several files that fit in memory.

        The entries of a file are sorted by key, so the reader must shuffle them.

        Returns:
            The paths of the keys and of the values of each file.
        """
        paths = [
            (self.folder / f"part-{n}.keys", self.folder / f"part-{n}.values")
            for n in range(-(-self.total // self._most))
        ]
        for columns in self.merged():
            drawn = mix(make_key("cooccurrences", seed), columns[0]) % np.uint64(len(paths))
            for number, own in enumerate(paths):
                for path, column in zip(own, columns, strict=True):
                    with path.open("ab") as file:
                        write_array(file, column[drawn == number])
        return paths


def count_pairs(
    chunks: Iterable[tuple[Int32s, Int64s]], counts: Int64s, window: int, pairs: CountedPairs
) -> None:
    """Count the pairs of words in a text that are at most `window` words apart.

    Args:
        chunks: the ids of each chunk of the text, and the positions at which documents end in it.
        counts: `[V]`, the count of each word; words with a count of 0 are first removed from the
            text.
        window: the largest distance of the words of a pair.
        pairs: receives the entries.
    """
    for tokens, ends in chunks:
        kept = counts[tokens] > 0
        before = np.append(0, np.cumsum(kept))
        pairs.add(chunk_entries(tokens[kept], before[ends], window, len(counts)))
