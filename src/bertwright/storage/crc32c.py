"""CRC-32C (Castagnoli; RFC 3720, appendix B.4) of large data with NumPy alone.

A CRC is the remainder of a division by P = 0x1EDC6F41, of degree 32, in GF(2)[x]. P divides the
sparse polynomial

    Q(x) = x^5685 + x^1362 + x^426 + 1,

and therefore Q(x^w) for w = 2, 4, 8, ..., because P(x^w) = P(x)^w for these w. A word of w bits
that has 5685 or more words after it can thus be added (exclusive or) to the words 5685 - 1362,
5685 - 426 and 5685 positions later without changing the remainder. Three operations of NumPy do
this for thousands of words. With words of 64 bits, data of any length is reduced to 5685 words;
with words of 8 bits, these are reduced to 5685 bytes; a table computes the CRC of the rest. Q was
found by a search: of all tetranomials below degree 6000 that P divides (it divides no trinomial, as
x + 1 divides P), Q has the widest step.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

_POLYNOMIAL = 0x82F63B78  # reflected: the first bit of a byte has the highest power
_DEGREE = 5685
_SHIFTS = (_DEGREE - 1362, _DEGREE - 426, _DEGREE)
_STEP = _SHIFTS[0]
CHUNK = 1 << 18  # words folded at a time: 2 MB, which stay in the cache
_MASK = 0xA282EAD8


def _make_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _make_table()


def crc32c(data: bytes | bytearray | memoryview | npt.NDArray[np.uint8]) -> int:
    """Return the CRC-32C of bytes: `crc32c(b"123456789") == 0xE3069283`."""
    view = np.frombuffer(data, np.uint8)
    crc = 0xFFFFFFFF
    if len(view) > _DEGREE:
        view = _folded(view)
        crc = 0
    for byte in view.tobytes():
        crc = crc >> 8 ^ _TABLE[crc & 0xFF ^ byte]
    return crc ^ 0xFFFFFFFF


def masked(data: bytes | bytearray | memoryview | npt.NDArray[np.uint8]) -> int:
    """Return the masked CRC, the form in which LevelDB and TensorFlow store it.

    Masking avoids computing the CRC of data that contains CRCs.
    """
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def _folded(view: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return at most `_DEGREE` bytes whose CRC from the initial value 0 is that of `view` from the
    initial value of all ones."""
    pad = -len(view) % 8  # zeros before the first byte have no weight
    rest = np.zeros(0, np.uint64)
    start = 0
    while start < len(view):
        chunk = view[start : start + 8 * CHUNK - pad]
        buffer = np.zeros(8 * len(rest) + pad + len(chunk), np.uint8)
        buffer[: 8 * len(rest)] = rest.view(np.uint8)
        buffer[-len(chunk) :] = chunk
        if start == 0:  # an initial value of ones equals inverting the first four bytes
            buffer[pad : pad + 4] ^= 0xFF
        start, pad = start + len(chunk), 0
        rest = _fold(buffer.view(np.uint64))
    return _fold(rest.view(np.uint8))


_Words = TypeVar("_Words", np.uint8, np.uint64)


def _fold(words: npt.NDArray[_Words]) -> npt.NDArray[_Words]:
    """Add all other words to the last `_DEGREE` ones, and return those; changes `words`."""
    end = len(words) - _DEGREE
    for start in range(0, end, _STEP):
        stop = min(start + _STEP, end)
        for shift in _SHIFTS:
            words[start + shift : stop + shift] ^= words[start:stop]
    return words[max(end, 0) :]
