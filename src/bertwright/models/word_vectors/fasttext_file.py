"""Read and write the `.bin` files of the published fastText: words, rows of n-grams and outputs.

A file has three parts: a signature and the settings; the words with their counts, each word
followed by a zero byte; and two matrices, the rows of words and buckets, and the outputs. A byte
before each matrix says whether it is quantized. Everything is little-endian. Files of 2016 have no
signature, no number of pruned words, and no bytes that say whether a matrix is quantized; they are
read too.

Letters: V words, R rows, H width.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertwright.arrays import Float32s, Int64s, write_array
from bertwright.errors import ConfigError, DataError
from bertwright.models.word_vectors.config import FastTextConfig

MAGIC, VERSION = 793712314, 12
_SETTINGS = struct.Struct("<12id")
_SIZES, _OLD_SIZES = struct.Struct("<3i2q"), struct.Struct("<3iq")
_ALGORITHMS = {1: "cbow", 2: "skip-gram"}
_LOSSES = {1: "hierarchical-softmax", 2: "negative-sampling"}


class FastTextFile(NamedTuple):
    """The content of a file."""

    config: FastTextConfig
    words: list[str]
    counts: Int64s
    rows: Float32s
    """`[V + buckets, H]`"""
    output: Float32s
    """`[V, H]`, or `[V - 1, H]` for the hierarchical softmax."""
    replaced: int = 0
    """The number of words with bytes that are not UTF-8; these bytes became U+FFFD."""


def is_fasttext(path: Path) -> bool:
    """Return whether a file is a `.bin` of fastText, judged by its first bytes."""
    if path.suffix != ".bin" or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(8 + _SETTINGS.size)
    return head.startswith(struct.pack("<i", MAGIC)) or _is_old(head)


def _is_old(head: bytes) -> bool:
    """Return whether a file begins with plausible settings but without the later signature.

    A binary file of word2vec begins with digits, which do not give a plausible width.
    """
    if len(head) < _SETTINGS.size:
        return False
    width, window, epochs, _, _, _, loss, algorithm, _, least, most, *_ = _SETTINGS.unpack_from(
        head
    )
    small = 0 < width < 1 << 16 and 0 < window < 1 << 16 and 0 < epochs < 1 << 16
    return small and loss in (1, 2, 3) and algorithm in (1, 2, 3) and 0 <= least <= most < 1 << 10


def notes_of(model: FastTextFile) -> tuple[str, ...]:
    """Return notes on what was replaced while reading."""
    what = "words are not whole UTF-8; their bad bytes became U+FFFD"
    return (f"{model.replaced:,} {what}",) if model.replaced else ()


def write(path: Path, model: FastTextFile) -> None:
    """Write a model as a `.bin` file of fastText, with its words and the rows of its n-grams."""
    config = model.config
    loss, algorithm = (
        next(number for number, name in names.items() if name == value)
        for names, value in ((_LOSSES, config.loss), (_ALGORITHMS, config.algorithm))
    )
    settings = (
        *(config.hidden_size, 5, 5, 1, 5, 1),  # width, window, epochs, min_count, negative, words
        *(loss, algorithm, config.buckets, config.min_n, config.max_n, 100, 1e-4),
    )
    with path.open("wb") as file:
        file.write(struct.pack("<2i", MAGIC, VERSION) + _SETTINGS.pack(*settings))
        size = len(model.words)
        file.write(_SIZES.pack(size, size, 0, int(model.counts.sum()), -1))
        for word, count in zip(model.words, model.counts.tolist(), strict=True):
            file.write(word.encode("utf-8") + b"\0" + struct.pack("<qb", count, 0))
        for matrix in (model.rows, model.output):
            file.write(b"\0" + struct.pack("<2q", *matrix.shape))
            write_array(file, matrix.astype("<f4", copy=False))


def read(path: Path) -> FastTextFile:
    """Return the content of a file."""
    data = np.memmap(path, np.uint8, "r").data
    try:
        return _read(path, data)
    except (struct.error, ValueError, IndexError) as error:
        raise DataError(f"{path} is truncated, or not as fastText writes it: {error}") from error


def _read(path: Path, data: memoryview) -> FastTextFile:
    old = bytes(data[:4]) != struct.pack("<i", MAGIC)
    at = 0 if old else 8
    settings = _SETTINGS.unpack_from(data, at)
    width, loss, algorithm, buckets, min_n, max_n = (*settings[:1], *settings[6:11])
    at += _SETTINGS.size
    sizes = _OLD_SIZES if old else _SIZES
    size, words_, labels, _, *pruned = sizes.unpack_from(data, at)
    at += sizes.size
    known = algorithm in _ALGORITHMS and loss in _LOSSES
    if not known or labels or max(pruned, default=0) > 0 or size != words_:
        raise DataError(f"{path} is a classifier of fastText, or pruned; expected word vectors")
    if not 0 < size <= len(data) // 10 or width < 1 or buckets < 0:
        raise DataError(
            f"{path} is truncated, or damaged: it says {size:,} words of {width:,} numbers and "
            f"{buckets:,} buckets"
        )
    words, counts = [], np.empty(size, np.int64)
    taken: set[str] = set()
    replaced = 0
    for row in range(size):
        stop = at
        while data[stop]:
            stop += 1
        word = bytes(data[at:stop]).decode("utf-8", errors="replace")
        if "\ufffd" in word:
            replaced += 1
            while word in taken:
                word += "\ufffd"
        taken.add(word)
        words.append(word)
        counts[row], _ = struct.unpack_from("<qb", data, stop + 1)
        at = stop + 10
    matrices = []
    for least in (size if max_n == 0 else size + buckets, 0):
        if old:
            quantized = False
        else:
            (quantized,) = struct.unpack_from("<?", data, at)
            at += 1
        count, numbers = struct.unpack_from("<2q", data, at)
        at += 16
        if quantized or numbers != width or count < least:
            raise DataError(f"{path} is quantized (.ftz; take the .bin), or damaged")
        matrices.append(np.frombuffer(data, "<f4", count * width, at).reshape(count, width))
        at += 4 * count * width
    rows, output = map(np.array, matrices)
    if max_n == 0:  # -maxn 0: words alone; whatever -bucket says, there are no rows of n-grams
        buckets, min_n, rows = 0, 0, rows[:size]
    values: Any = (_ALGORITHMS[algorithm], _LOSSES[loss], buckets, min_n, max_n)
    try:
        config = FastTextConfig(size, width, *values)
    except ConfigError as error:
        raise DataError(f"{path} is no word vectors of fastText: {error}") from error
    return FastTextFile(config, words, counts, rows, output, replaced)
