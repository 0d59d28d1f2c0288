"""Evaluate vectors by retrieval on a data set in BEIR's format (`beir.py`).

A document that is the query itself, with its id and its text (as in ArguAna), is left out of its
ranking; BEIR leaves out every document with the id of the query. TF-IDF and BM25
(`tasks/lexical.py`) are evaluated as baselines. The metrics read the first 100 documents of each
ranking; nDCG has linear gains, as in trec_eval.

Letters: n documents, q queries, k ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertwright.arrays import Float64s, Int64s
from bertwright.inference.files.beir import Search, find_judgements, read_search
from bertwright.inference.files.similar import nearest, search_prompts
from bertwright.inference.vectors.embed import Embedder
from bertwright.progress import OnProgress, silent
from bertwright.tasks.lexical import Scorer, bm25_scorer, tfidf_scorer
from bertwright.tasks.metrics import bootstrap, of_sums, ratio, value

RANKS = 100
"""The number of documents of a ranking that the metrics read."""
METRICS = ("ndcg_at_10", "mrr", "recall_at_1", "recall_at_10", "recall_at_100")
_BLOCK = 1 << 24


def evaluate_search(
    embedder: Embedder,
    data: str | Path,
    intervals: bool = True,
    on_progress: OnProgress = silent,
) -> dict[str, Any]:
    """Evaluate vectors on a data set, with TF-IDF and BM25 as baselines.

    Args:
        embedder: the embedder that computes the vectors.
        data: the folder of a data set, or one of its files of judgements.
        intervals: compute 95 % confidence intervals by bootstrap over the queries.
        on_progress: called with the number of tokens done.

    Returns:
        `metrics`, `intervals`, `baselines`, `examples` (the number of queries), `documents` (their
        number), `data`, `task`, `main` and `warnings`.

    Raises:
        DataError: the data set cannot be read.
    """
    search = read_search(find_judgements(data))
    of_query, of_document = search_prompts(embedder)
    corpus = embedder.embed(search.documents, on_progress, prompt=of_document)
    queries = embedder.embed(search.queries, prompt=of_query)
    found, _ = nearest(corpus, queries, RANKS + 1)
    parts = figures_of_queries(search, found)
    baselines = {}
    for name, make in (("tfidf_cosine", tfidf_scorer), ("bm25", bm25_scorer)):
        ranked = figures_of_queries(search, _best(search, make(search.documents)))
        baselines[name] = value(of_sums(ranked, _formula), len(ranked))
    statistic = of_sums(parts, _formula)
    ends = bootstrap(statistic, len(parts)) if intervals else {}
    return {
        "task": "retrieval",
        "data": {"file": search.name, "examples": len(search.queries)},
        "metrics": value(statistic, len(parts)),
        "main": METRICS[0],
        "intervals": {name: [*each] for name, each in ends.items()},
        "baselines": baselines,
        "examples": len(search.queries),
        "documents": len(search.documents),
        "warnings": search.warnings,
    }


def _best(search: Search, score: Scorer) -> Int64s:
    """Return the documents with the highest scores for each query, `[q, k]`; ties are in the order
    of the corpus.
    """
    at_once, parts = max(1, _BLOCK // len(search.documents)), []
    for start in range(0, len(search.queries), at_once):
        scores = score(search.queries[start : start + at_once])
        parts.append(np.argsort(-scores, axis=1, kind="stable")[:, : RANKS + 1])
    return np.concatenate(parts)


def figures_of_queries(search: Search, found: Int64s) -> Float64s:
    """Return the sums that each query contributes, `[q, 6]`: its metrics (`METRICS`), and 1."""
    rows = []
    for own, grades, ranked in zip(search.own, search.relevant, found, strict=True):
        kept = [each for each in ranked.tolist() if each != own][:RANKS]
        gains = np.array([grades.get(each, 0.0) for each in kept])
        rows.append([*figures_of_query(gains, sorted(grades.values(), reverse=True)), 1.0])
    return np.array(rows)


def figures_of_query(gains: Float64s, ideal: Sequence[float]) -> list[float]:
    """Return the metrics of one query.

    Args:
        gains: the grade of the document at each rank, `[k]`; 0 for documents that are not relevant.
        ideal: the grades of all relevant documents, the highest first.
    """
    hits = np.flatnonzero(gains > 0)
    discounts = 1 / np.log2(np.arange(2, 12))
    ndcg = gains[:10] @ discounts[: len(gains[:10])]
    best = np.array(ideal[:10]) @ discounts[: len(ideal[:10])]
    reciprocal = 1 / (1 + hits[0]) if len(hits) else 0.0
    recalls = [float((hits < k).sum()) / len(ideal) for k in (1, 10, 100)]
    return [float(ndcg / best), float(reciprocal), *recalls]


def _formula(sums: Float64s) -> Mapping[str, Float64s]:
    return {name: ratio(sums[:, n], sums[:, -1]) for n, name in enumerate(METRICS)}
