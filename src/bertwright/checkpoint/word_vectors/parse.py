"""Numbers of a text file, in compiled loops (numba; extra `words`): fifty times as fast as Python.

Letters: H numbers a row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from bertwright.arrays import Float32s, Float64s, Int64s

_POWERS: Float64s = 10.0 ** np.arange(23, dtype=np.float64)  # these are exact
SPACE, LINE_END, DOT, MINUS, PLUS, ZERO, EXPONENT = 32, 10, 46, 45, 43, 48, 101


@njit(cache=True, nogil=True)
def parse_rows(
    data: npt.NDArray[np.uint8], start: int, width: int, vectors: Float32s, word_ends: Int64s
) -> tuple[int, int]:
    """Read rows of a word and H numbers, until the data end or the rows are full.

    Args:
        data: the file.
        start: of the first row.
        width: H.
        vectors: `[rows, H]`, filled.
        word_ends: `[rows, 2]` where each word starts and ends, filled.

    Returns:
        How many rows were read; and where the first that cannot be read starts, or -1.
    """
    row, size = 0, len(data)
    while start < size and row < len(vectors):
        stop = start
        while stop < size and data[stop] != LINE_END:
            stop += 1
        end = stop
        while end > start and (data[end - 1] == SPACE or data[end - 1] == 13):
            end -= 1
        at, fields = end, 0
        while fields < width and at > start:  # from the right: a word may hold spaces
            at -= 1
            if data[at] == SPACE:
                fields += 1
        if fields < width or at == start:
            return row, start
        word_ends[row, 0], word_ends[row, 1] = start, at
        for column in range(width):
            at += 1
            sign, mantissa, digits, scale, dotted = 1.0, 0.0, 0, 0, False
            if at < end and (data[at] == MINUS or data[at] == PLUS):
                sign = -1.0 if data[at] == MINUS else 1.0
                at += 1
            while at < end and (data[at] == DOT or 0 <= np.int64(data[at]) - ZERO <= 9):
                if data[at] == DOT:
                    if dotted:
                        return row, start
                    dotted = True
                else:
                    digits += 1
                    mantissa = mantissa * 10.0 + (np.int64(data[at]) - ZERO)
                    scale -= dotted
                at += 1
            if at < end and (data[at] | 32) == EXPONENT and digits:
                at += 1
                negative = at < end and data[at] == MINUS
                if at < end and (data[at] == MINUS or data[at] == PLUS):
                    at += 1
                power = 0
                while at < end and 0 <= np.int64(data[at]) - ZERO <= 9:
                    power = min(power * 10 + int(data[at]) - ZERO, 1000)
                    at += 1
                scale += -power if negative else power
            if not digits or (at < end and data[at] != SPACE):
                return row, start
            if 0 <= scale <= 22:
                mantissa *= _POWERS[scale]
            elif -22 <= scale < 0:
                mantissa /= _POWERS[-scale]
            else:
                mantissa *= 10.0 ** np.float64(scale)
            vectors[row, column] = sign * mantissa
        row += 1
        start = stop + 1
    return row, -1
