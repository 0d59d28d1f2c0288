"""How often words stand near one another, counted in bounded memory.

Pennington, Socher, Manning 2014, "GloVe", section 4.2: X_ij is the sum of 1/d over all pairs of
words i and j that stand d words apart, 1 <= d <= `window`, to either side, so that X is symmetric.
Pairs i <= j are counted alone: chunk by chunk, sorted by key i V + j and summed; what exceeds the
memory goes to the disk as a sorted run, and the runs are merged range by range.

Letters: V vocabulary, E entries (pairs that occur).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from bertwright.arrays import Float64s, Int32s, Int64s
from bertwright.data.randomness import make_key, mix

Entries = tuple[Int64s, Float64s]
"""`[E]` keys, rising, and their sums."""
BYTES = 16
"""Of an entry."""


def sum_entries(parts: list[Entries]) -> Entries:
    """Entries of several parts as one, sorted by key."""
    keys, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[first], np.add.reduceat(values, first) if len(first) else values


def chunk_entries(tokens: Int32s, ends: Int64s, window: int, size: int) -> Entries:
    """The entries of a chunk of `[N]` ids, without words that are not trained, and where documents
    end in it: words of one document alone are near one another, at most `window` apart."""
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
    """Sorted runs of entries in a folder."""

    def __init__(self, folder: Path, memory: int) -> None:
        """Count with files in `folder`; entries take `memory` bytes, about, and sorting three
        times as much."""
        self.folder, self._most = folder, max(1, memory // BYTES)
        self._parts: list[Entries] = []
        self._runs: list[Entries] = []

    def add(self, entries: Entries) -> None:
        """Add a chunk's."""
        self._parts.append(entries)
        if sum(len(keys) for keys, _ in self._parts) > self._most:
            self._parts = [sum_entries(self._parts)]
            if len(self._parts[0][0]) > self._most // 2:
                self._write_run()

    def _write_run(self) -> None:
        (keys, values), number = self._parts.pop(), len(self._runs)
        mapped = []
        for name, column in (("keys", keys), ("values", values)):
            path = self.folder / f"run-{number}.{name}.npy"
            np.save(path, column)
            mapped.append(np.load(path, mmap_mode="r"))
        self._runs.append((mapped[0], mapped[1]))

    def merged(self) -> Iterator[Entries]:
        """All entries in the order of their keys, a range at a time."""
        parts = [*self._runs, *([sum_entries(self._parts)] if self._parts else [])]
        total = sum(len(keys) for keys, _ in parts)
        step = max(1, total // 100_000)
        sample = np.sort(np.concatenate([keys[::step] for keys, _ in parts]))
        ranges = -(-total // self._most)
        limits = sample[[len(sample) * n // ranges for n in range(1, ranges)]]
        starts = [0] * len(parts)
        for limit in [*limits.tolist(), np.iinfo(np.int64).max]:
            stops = [int(np.searchsorted(keys, limit)) for keys, _ in parts]
            slices = [
                (np.asarray(keys[a:b]), np.asarray(values[a:b]))
                for (keys, values), a, b in zip(parts, starts, stops, strict=True)
            ]
            starts = stops
            yield sum_entries(slices)

    def shuffled(self, seed: int) -> list[tuple[Path, Path]]:
        """Write all entries to files in random order of keys, each small enough for the memory;
        their names. Entries of a file are still sorted: whoever reads it shuffles them."""
        total = sum(len(keys) for keys, _ in (*self._runs, *self._parts))
        count = -(-total // self._most)
        paths = [
            (self.folder / f"part-{n}.keys", self.folder / f"part-{n}.values") for n in range(count)
        ]
        for keys, values in self.merged():
            drawn = mix(make_key("cooccurrences", seed), keys) % np.uint64(count)
            for number, (of_keys, of_values) in enumerate(paths):
                chosen = drawn == number
                _append(of_keys, keys[chosen])
                _append(of_values, values[chosen])
        return paths


def _append(path: Path, values: Int64s | Float64s) -> None:
    with path.open("ab") as file:
        values.tofile(file)


def count_pairs(
    chunks: Iterable[tuple[Int32s, Int64s]], counts: Int64s, window: int, pairs: CountedPairs
) -> None:
    """Count the pairs of a text, given as ids and where documents end; words whose `counts` `[V]`
    are 0 are left out, as if they were not in it. `window` is the farthest distance."""
    for tokens, ends in chunks:
        kept = counts[tokens] > 0
        before = np.append(0, np.cumsum(kept))
        pairs.add(chunk_entries(tokens[kept], before[ends], window, len(counts)))
