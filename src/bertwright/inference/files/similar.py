"""Find the texts nearest to a query by exact search: matrix products, block by block.

Letters: n vectors of a corpus, q queries, W the width of a vector, k nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Float32s, Int64s
from bertwright.config.vectors import OF_DOCUMENTS, OF_QUERIES, usual_prompt
from bertwright.errors import ConfigError, DataError
from bertwright.inference.files.stored_vectors import decode
from bertwright.inference.vectors.embed import Embedder, normalized
from bertwright.progress import OnProgress, silent

BLOCK = 1 << 16
"""The number of vectors of the corpus that are compared at once."""


LEAST_COSINE = {"uint8": 0.6}
"""The least cosine between a stored vector and the vector of its text, by the stored type; 0.9 for
other types. Binary vectors (uint8) have about 0.8; vectors of another model have about 0.
"""


class Neighbour(NamedTuple):
    """A text of a corpus that is near a query."""

    row: int
    """The index of the text in the corpus."""
    cosine: float
    text: str


class Similar(NamedTuple):
    """The result of a search."""

    found: list[list[Neighbour]]
    """For each query its nearest texts, the nearest first."""
    stranger: tuple[int, float] | None
    """A row whose stored vector is probably not of its text, and the cosine of the two; see
    `strangest`.
    """


def similar(
    embedder: Embedder,
    queries: Sequence[str],
    corpus: Sequence[str],
    top: int = 10,
    *,
    stored: npt.NDArray[Any] | None = None,
    scales: Float32s | None = None,
    query_prompt: str | None = None,
    corpus_prompt: str | None = None,
    on_progress: OnProgress = silent,
) -> Similar:
    """Return the texts of a corpus that are nearest to each query, by the cosine of the vectors.

    Args:
        embedder: the embedder that computes the vectors.
        queries: texts to search for.
        corpus: texts to search in.
        top: the number of texts for each query.
        stored: the vectors of the corpus, `[n, W]`, as `read_vectors` returns them; None: they are
            computed.
        scales: the scales of int8 vectors.
        query_prompt, corpus_prompt: as for `search_prompts`.
        on_progress: called with the number of tokens of the corpus that are done.

    Raises:
        ConfigError: `top` is below 1.
        DataError: the stored vectors have another width than the model's, or are not finite.
    """
    of_query, of_corpus = search_prompts(embedder, query_prompt, corpus_prompt)
    vectors = embedder.embed(corpus, on_progress, prompt=of_corpus) if stored is None else stored
    rows, cosines = nearest(vectors, embedder.embed(queries, prompt=of_query), top, scales)
    found = [
        [Neighbour(row, cosine, corpus[row]) for row, cosine in zip(near, values, strict=True)]
        for near, values in zip(rows.tolist(), cosines.tolist(), strict=True)
    ]
    if stored is None:
        return Similar(found, None)
    checked = sorted({0, len(corpus) // 2, len(corpus) - 1})
    own = embedder.embed([corpus[row] for row in checked], prompt=of_corpus)
    return Similar(found, strangest(stored, own, checked, scales))


def search_prompts(
    embedder: Embedder, query: str | None = None, corpus: str | None = None
) -> tuple[str, str]:
    """Return the prompts of the queries and of the texts that are searched.

    A prompt that is None is that of the model's folder for queries or documents, or else the
    embedder's.
    """
    of_query = usual_prompt(embedder.prompts, OF_QUERIES) if query is None else query
    of_corpus = usual_prompt(embedder.prompts, OF_DOCUMENTS) if corpus is None else corpus
    default = embedder.config.prompt
    return (
        default if of_query is None else of_query,
        default if of_corpus is None else of_corpus,
    )


def strangest(
    corpus: npt.NDArray[Any], own: Float32s, rows: list[int], scales: Float32s | None = None
) -> tuple[int, float] | None:
    """Return the row whose vector is least similar to the vector that the model computes for its
    text, and their cosine; None if all are similar enough.

    Args:
        corpus: as for `nearest`.
        own: `[r, W]`, the vectors that the model computes for the texts of these rows.
        rows: r rows of the corpus.
        scales: as for `nearest`.
    """
    given = decode(corpus[rows], scales)[:, : own.shape[1]]
    cosines = (normalized(given) * normalized(own)).sum(1)
    worst = int(cosines.argmin())
    is_low = cosines[worst] < LEAST_COSINE.get(corpus.dtype.name, 0.9)
    return (rows[worst], float(cosines[worst])) if is_low else None


def nearest(
    corpus: npt.NDArray[Any], queries: Float32s, top: int, scales: Float32s | None = None
) -> tuple[Int64s, Float32s]:
    """Return the k vectors of a corpus with the highest cosine to each query.

    Args:
        corpus: `[n, W]` as `Coder` stored it; may be memory-mapped from a file.
        queries: `[q, W]`.
        top: k; fewer rows are returned if the corpus is smaller.
        scales: the scales of an int8 corpus.

    Returns:
        Rows `[q, k]` and their cosines `[q, k]`, the highest first. Ties are in the order of the
        rows.

    Raises:
        ConfigError: `top` is below 1.
        DataError: the corpus has vectors of another width, or numbers that are not finite.
    """
    if top < 1:
        raise ConfigError(f"top is {top}; expected 1 or more")
    if corpus.ndim != 2 or not len(corpus):
        raise DataError(f"the corpus has the shape {list(corpus.shape)}; expected [n, W]")
    binary = corpus.dtype == np.uint8
    width = corpus.shape[1] * (8 if binary else 1)
    if not (width == queries.shape[1] or (binary and 0 <= width - queries.shape[1] < 8)):
        raise DataError(
            f"the corpus has vectors of {width:,} numbers; the model's have "
            f"{queries.shape[1]:,}: embed both with the same model and options"
        )
    unit_queries = normalized(queries)
    best_rows = np.zeros((len(queries), 0), np.int64)
    best = np.zeros((len(queries), 0), np.float32)
    for start in range(0, len(corpus), BLOCK):
        block = decode(corpus[start : start + BLOCK], scales)[:, : queries.shape[1]]
        if not np.isfinite(block).all():
            row = start + int(np.isfinite(block).all(1).argmin()) + 1
            raise DataError(f"row {row:,} of the corpus has numbers that are not finite")
        cosines = unit_queries @ normalized(block).T  # [q, block]
        rows = np.broadcast_to(np.arange(start, start + len(block)), cosines.shape)
        best = np.concatenate([best, cosines], 1)
        best_rows = np.concatenate([best_rows, rows], 1)
        order = _highest(best, top)
        best = np.take_along_axis(best, order, 1)
        best_rows = np.take_along_axis(best_rows, order, 1)
    return best_rows, best


def _highest(cosines: Float32s, top: int) -> Int64s:
    """Return the columns `[q, k]` of the highest cosines `[q, n]`, ties in their order.

    Only what is as high as the k-th is sorted.
    """
    top = min(top, cosines.shape[1])
    columns = np.empty((len(cosines), top), np.int64)
    for query, distances in enumerate(-cosines):
        candidates = np.flatnonzero(~(distances > np.partition(distances, top - 1)[top - 1]))
        columns[query] = candidates[np.argsort(distances[candidates], kind="stable")[:top]]
    return columns
