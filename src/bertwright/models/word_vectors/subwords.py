"""Character n-grams of words, hashed into buckets as the published fastText does.

Bojanowski, Grave, Joulin, Mikolov 2017, "Enriching Word Vectors with Subword Information", section
3.2: the n-grams are those of `<word>`, and their rows are averaged with the word's own.

Letters: V words.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from bertwright.arrays import Int64s

_BASIS, _PRIME, _MASK = 2166136261, 16777619, 0xFFFFFFFF


def buckets_of(word: str, buckets: int, min_n: int, max_n: int) -> list[int]:
    """Return the bucket of each n-gram of a word: the FNV-1a hash of its UTF-8 bytes, which count
    as signed as in fastText.
    """
    characters = [character.encode("utf-8") for character in f"<{word}>"]
    numbers, size = [], len(characters)
    for start in range(size):
        number = _BASIS
        for stop in range(start + 1, min(start + max_n, size) + 1):
            for byte in characters[stop - 1]:
                signed = byte if byte < 128 else byte | 0xFFFFFF00
                number = ((number ^ signed) * _PRIME) & _MASK
            n = stop - start
            if n >= min_n and not (n == 1 and (start == 0 or stop == size)):
                numbers.append(number % buckets)
    return numbers


def word_units(
    words: Sequence[str], bare: Collection[int], buckets: int, min_n: int, max_n: int
) -> tuple[Int64s, Int64s]:
    """Return the rows whose mean is each word's vector.

    The two arrays are the start of each word's rows `[V + 1]`, and the rows of all words. The rows
    of a word are its own, then V + the bucket of each n-gram of `min_n` to `max_n` characters. The
    words with numbers in `bare` have no n-grams.
    """
    starts, units = [0], []
    for row, word in enumerate(words):
        units.append(row)
        if row not in bare:
            units += [len(words) + each for each in buckets_of(word, buckets, min_n, max_n)]
        starts.append(len(units))
    return np.array(starts), np.array(units)
