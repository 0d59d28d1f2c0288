"""Count n-grams on the disk.

An n-gram of order k is the number `i V + w` (see `models/ngram/tables.py`), where i is the row of
its first k - 1 tokens among the n-grams of order k - 1; so one int64 holds an n-gram of any order.
For each order the text is read once, block by block. The numbers of a block are sorted and counted;
counts that exceed the memory go to the disk as a sorted run, and runs are merged range by range
(`CountedPairs`). A second pass records, for each token, which n-gram of this order ends there;
together with the token after it, this gives the next order. The tables and these records are files
that are read by memory map.

Letters: T tokens of all framed documents; V vocabulary; M n-grams of an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertwright.arrays import Bools, Int64s, new_memmap, write_array
from bertwright.data.counted_pairs import BYTES, CountedPairs
from bertwright.data.shards import Shards
from bertwright.data.token_streams import framed_tokens
from bertwright.errors import DataError
from bertwright.text.framing import ends_of


@dataclass(frozen=True)
class NgramCounts:
    """The n-grams of one order k, sorted."""

    keys: Int64s
    """`[M]`: `i V + w`; for order 1, the token ids 0 to V - 1."""
    counts: Int64s
    """`[M]`: the number of occurrences of each n-gram; 0 for words that do not occur."""
    suffixes: Int64s
    """`[M]`: the row, in order k - 1, of the last k - 1 tokens of each n-gram; for order 1 all
    0.
    """


def count_ngrams(
    shards: Shards, documents: Int64s, order: int, folder: Path, memory: int
) -> list[NgramCounts]:
    """Count the n-grams of the orders 1 to n in framed documents. No n-gram crosses the end of a
    document.

    Args:
        order: n.
        folder: the folder for temporary files, as large as the text and its n-grams; the caller
            removes it.
        memory: the approximate number of bytes that the counts may take; sorting takes three times
            as much.

    Raises:
        DataError: no document has n tokens.
    """
    size, block = shards.vocab_size, max(1, memory // (4 * BYTES))
    bounds = shards.sentence_tokens[shards.document_sentences]
    added = len(ends_of(shards.special) or ())
    stops = np.cumsum(bounds[documents + 1] - bounds[documents] + added)
    total = int(stops[-1])
    tokens, ending, begins = (
        new_memmap(folder / name, kind, (total,))
        for name, kind in (("tokens", np.int64), ("ending", np.int64), ("begins", np.bool_))
    )
    unigrams = np.zeros(size, np.int64)
    for start, stop in _blocks(0, total, block):
        at = np.arange(start, stop)
        owner = np.searchsorted(stops, at, side="right")
        within = at - np.append(0, stops)[owner]
        tokens[start:stop] = framed_tokens(shards, documents[owner], within)
        begins[start:stop] = within == 0
        unigrams += np.bincount(tokens[start:stop], minlength=size)
    ending[:] = tokens
    orders = [NgramCounts(np.arange(size), unigrams, np.zeros(size, np.int64))]
    for k in range(2, order + 1):
        orders.append(_count_order(k, tokens, begins, ending, size, block, folder))
    return orders


def _count_order(
    k: int, tokens: Any, begins: Any, ending: Any, size: int, block: int, folder: Path
) -> NgramCounts:
    """Count the n-grams of order k. Before the call, `ending` holds for each token the n-gram of
    order k - 1 that ends there; after the call, the n-gram of order k.
    """
    place = folder / f"order-{k}"
    place.mkdir()
    runs = CountedPairs(place, 4 * block * BYTES)
    for start, stop in _blocks(1, len(tokens), block):
        keys, held = _keys(tokens, begins, ending, size, start, stop)
        unique, counts = np.unique(keys[held], return_counts=True)
        runs.add((unique, counts.astype(np.float64)))
    if not runs.total:
        raise DataError(
            f"no document has {k} tokens, those for begin and end included: lower "
            "--architecture.order, or build the data of longer documents"
        )
    with (place / "keys").open("wb") as of_keys, (place / "counts").open("wb") as of_counts:
        for keys, values in runs.merged():
            write_array(of_keys, keys)
            write_array(of_counts, values.astype(np.int64))
    columns = [np.memmap(place / name, np.int64, "r") for name in ("keys", "counts")]
    suffixes = new_memmap(place / "suffixes", np.int64, columns[0].shape)
    # last block first: each block reads `ending` one token before itself, and overwrites its part
    for start, stop in reversed([*_blocks(1, len(tokens), block)]):
        keys, held = _keys(tokens, begins, ending, size, start, stop)
        rows = np.where(held, np.searchsorted(columns[0], np.where(held, keys, 0)), -1)
        suffixes[rows[held]] = ending[start:stop][held]
        ending[start:stop] = rows
    ending[0] = -1
    return NgramCounts(columns[0], columns[1], suffixes)


def _keys(
    tokens: Any, begins: Any, ending: Any, size: int, start: int, stop: int
) -> tuple[Int64s, Bools]:
    """Return the numbers of the n-grams that end at tokens `start` to `stop` - 1, and which of
    these tokens end one.
    """
    first = ending[start - 1 : stop - 1]
    held = (first >= 0) & ~begins[start:stop]
    return first * size + tokens[start:stop], held


def _blocks(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    for first in range(start, stop, size):
        yield first, min(first + size, stop)
