"""TF-IDF and BM25: similarity by shared words, as a baseline of sentence vectors.

BM25 is computed as in Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond" (2009), with Lucene's parameters k1 = 1.2 and b = 0.75. Words are those of
`text/scripts.py`; in a script without blanks, the terms are one and two characters.

Letters: n documents or pairs, q queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bertwright.arrays import Float32s
from bertwright.text.scripts import without_blanks, word_pattern

K1, B = 1.2, 0.75
"""k1 sets how fast the count of a word saturates, and b how much long documents are discounted."""
_ONE_WORD = "..a.."
"""A text that is added before fitting, which fails if no text has a word."""

Scorer = Callable[[Sequence[str]], Float32s]
"""Returns the scores of all documents for q queries, `[q, n]`."""


def terms(texts: Sequence[str], pattern: str | None = None, longest: int = 1) -> dict[str, Any]:
    """Return the arguments of a vectorizer of scikit-learn that select the terms of texts: runs of
    up to `longest` words, or one and two characters in a script without blanks.

    `pattern` is the regular expression of a word; by default it is that of `text/scripts.py`.
    """
    if without_blanks(texts[:1000]):
        return {"analyzer": "char", "ngram_range": (1, 2), "token_pattern": None}
    return {"ngram_range": (1, longest), "token_pattern": pattern or word_pattern()}


def tfidf_cosines(first: Sequence[str], second: Sequence[str]) -> Float32s:
    """Return the cosine of the TF-IDF vectors of each pair, `[n]`."""
    vectorizer = _tfidf([*first, *second])
    x, y = vectorizer.transform(first), vectorizer.transform(second)
    return np.asarray(x.multiply(y).sum(axis=1), np.float32).ravel()


def tfidf_scorer(documents: Sequence[str]) -> Scorer:
    """Return a function that scores documents by the cosine of TF-IDF vectors.

    TF-IDF is fitted on the documents.
    """
    vectorizer = _tfidf(documents)
    transposed = vectorizer.transform(documents).T.tocsr()
    return lambda queries: np.asarray(
        (vectorizer.transform(queries) @ transposed).toarray(), np.float32
    )


def _tfidf(texts: Sequence[str]) -> Any:
    """Return TF-IDF fitted on texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(**terms(texts), sublinear_tf=True, dtype=np.float32)
    return vectorizer.fit([*texts, _ONE_WORD])


def bm25_scorer(documents: Sequence[str]) -> Scorer:
    """Return a function that scores documents by BM25."""
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(**terms(documents), dtype=np.float32)
    counts = csr_array(counter.fit_transform([*documents, _ONE_WORD]))[: len(documents)]
    lengths = np.asarray(counts.sum(axis=1), np.float32).ravel()
    norms = K1 * (1 - B + B * lengths / max(1e-9, lengths.mean()))
    present = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log1p((len(documents) - present + 0.5) / (present + 0.5)).astype(np.float32)
    rows = np.repeat(np.arange(len(documents)), np.diff(counts.indptr))
    tf = counts.data * (K1 + 1) / (counts.data + norms[rows]) * idf[counts.indices]
    weights = csr_array((tf, counts.indices, counts.indptr), counts.shape).T.tocsr()

    def score(queries: Sequence[str]) -> Float32s:
        asked = csr_array(counter.transform(queries))
        return np.asarray((asked @ weights).toarray(), np.float32)

    return score
