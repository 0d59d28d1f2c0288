"""Random numbers as a function of a key and counters, without a generator that keeps a state.

A key is the hash of a name, the seed, the epoch and the like. Counters (instance, token, draw) are
mixed in by SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA
2014). The same key and counters give the same draw on every machine, with every version of NumPy,
in any order and on any rank; NumPy's own generators promise none of these. A run that is resumed
need not replay the draws before.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Float64s, Int64s, UInt64s

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def make_key(name: str, *numbers: int) -> np.uint64:
    """Return a key for one purpose, which `name` says; `numbers` are the seed, the epoch and the
    like.
    """
    text = name + "".join(f"\0{number}" for number in numbers)
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


def mix(key: np.uint64 | UInt64s, counters: npt.ArrayLike) -> UInt64s:
    """Return 64 random bits for each counter. `key` is a single key, or one for each counter."""
    z = np.atleast_1d(np.asarray(counters)).astype(np.uint64)  # scalars would warn of overflow
    z = (z + np.uint64(1)) * _GOLDEN + key
    z ^= z >> np.uint64(30)
    z *= _MIX_1
    z ^= z >> np.uint64(27)
    z *= _MIX_2
    z ^= z >> np.uint64(31)
    return z


def uniform(bits: UInt64s) -> Float64s:
    """Return numbers in [0, 1), each made of 53 of the 64 random bits."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(bits: UInt64s, limits: npt.ArrayLike) -> Int64s:
    """Return integers from 0 to `limits` - 1, made of random bits. Limits must be below 2**53."""
    drawn: Int64s = (uniform(bits) * np.asarray(limits)).astype(np.int64)
    return drawn


def permutation(key: np.uint64, count: int) -> Int64s:
    """Return the numbers 0 to `count` - 1 in random order."""
    return np.argsort(mix(key, np.arange(count)), kind="stable").astype(np.int64)


def fair_coins(keys: UInt64s, throws: Int64s) -> Int64s:
    """Return the number of heads among `throws` fair coins for each key: Binomial(throws, 1/2).

    Each coin is one random bit. The distribution is exact for up to 4,096 throws. Of the throws
    beyond these, half count as heads, which only thousands of draws could tell from coins.
    """
    exact = np.minimum(throws, 4096)
    heads = (throws - exact) // 2
    rows = np.flatnonzero(exact > 0)
    word = 0
    while rows.size:
        left = exact[rows] - 64 * word
        used = np.minimum(left, 64).astype(np.uint64)
        bits = mix(keys[rows], word) >> (np.uint64(64) - used)
        heads[rows] += np.unpackbits(bits[:, None].view(np.uint8), axis=1).sum(1, np.int64)
        rows = rows[left > 64]
        word += 1
    return heads
