"""The `.bin` of the published fastText, both ways: words, rows of n-grams, output vectors.

A signature and the settings; words with their counts, a zero byte after each; then two matrices,
each after a byte that says whether it is quantized: the rows of words and buckets, and the outputs.
Everything is little-endian. Letters: V words, R rows, H width.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertwright.arrays import Float32s, Int64s, write_array
from bertwright.config.runs.word_vectors import FastTextConfig
from bertwright.errors import DataError

MAGIC, VERSION = 793712314, 12
_SETTINGS = struct.Struct("<12id")
_SIZES = struct.Struct("<3i2q")
_ALGORITHMS = {1: "cbow", 2: "skip-gram"}
_LOSSES = {1: "hierarchical-softmax", 2: "negative-sampling"}


class FastTextFile(NamedTuple):
    """What such a file holds."""

    config: FastTextConfig
    words: list[str]
    counts: Int64s
    rows: Float32s
    """`[V + buckets, H]`"""
    output: Float32s
    """`[V, H]`, or `[V - 1, H]` of the hierarchical softmax."""


def is_fasttext(path: Path) -> bool:
    """Whether a file begins as fastText's do."""
    with path.open("rb") as file:
        return file.read(4) == struct.pack("<i", MAGIC)


def write(path: Path, model: FastTextFile) -> None:
    """Write a model."""
    config = model.config
    loss, algorithm = (
        next(number for number, name in names.items() if name == own)
        for names, own in ((_LOSSES, config.loss), (_ALGORITHMS, config.algorithm))
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
    """Read a model.

    Raises:
        DataError: it is truncated, quantized, or a classifier.
    """
    data = np.memmap(path, np.uint8, "r").data
    try:
        return _read(path, data)
    except (struct.error, ValueError, IndexError) as error:
        raise DataError(f"{path} is truncated, or not as fastText writes it: {error}") from error


def _read(path: Path, data: memoryview) -> FastTextFile:
    settings = _SETTINGS.unpack_from(data, 8)
    width, loss, algorithm, buckets, min_n, max_n = (*settings[:1], *settings[6:11])
    at = 8 + _SETTINGS.size
    size, words_, labels, _, pruned = _SIZES.unpack_from(data, at)
    at += _SIZES.size
    known = algorithm in _ALGORITHMS and loss in _LOSSES
    if not known or labels or pruned > 0 or size != words_:
        raise DataError(f"{path} is a classifier of fastText, or pruned; expected word vectors")
    words, counts = [], np.empty(size, np.int64)
    for row in range(size):
        stop = at
        while data[stop]:
            stop += 1
        words.append(bytes(data[at:stop]).decode("utf-8"))
        counts[row], _ = struct.unpack_from("<qb", data, stop + 1)
        at = stop + 10
    matrices = []
    for least in (size + buckets, 0):
        quantized, count, numbers = struct.unpack_from("<?2q", data, at)
        at += 17
        if quantized or numbers != width or count < least:
            raise DataError(f"{path} is quantized (.ftz; take the .bin), or damaged")
        matrices.append(np.frombuffer(data, "<f4", count * width, at).reshape(count, width))
        at += 4 * count * width
    own: Any = (_ALGORITHMS[algorithm], _LOSSES[loss], buckets, min_n, max_n)
    config = FastTextConfig(size, width, *own)
    return FastTextFile(config, words, counts, *map(np.array, matrices))
