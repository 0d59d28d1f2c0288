"""Routes that rank documents by their relevance to a query: /rerank, and /v1/rerank as Cohere and
Jina have it.

A head that was trained on pairs reads the query with each document (a cross-encoder): the score is
its number, or the probability of the last of its two classes. A model of sentence vectors reads the
query and each document alone (a bi-encoder): the score is the similarity of their vectors, by the
function and with the prompts of its folder.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertwright.arrays import Float32s
from bertwright.config.task import TaskConfig
from bertwright.config.vectors import SimilarityFunction
from bertwright.inference.vectors.compare import FUNCTIONS
from bertwright.serve.calls import Call, ModelCall
from bertwright.serve.engine.engine import Engine
from bertwright.serve.engine.items import query_items
from bertwright.serve.errors import NoHead, invalid_request
from bertwright.serve.routes.heads import choose_task
from bertwright.serve.routing import ModelRouter
from bertwright.serve.schemas.replies import (
    About,
    Document,
    RankedDocument,
    RankReply,
    RelevantDocument,
    RerankReply,
    Usage,
)
from bertwright.serve.schemas.requests import DocumentText, RankRequest, RerankRequest, listed
from bertwright.tasks.catalogue import kind_of, kinds_that
from bertwright.tasks.kind import Kind
from bertwright.tasks.predictions import NumberPrediction, TextPrediction
from bertwright.tasks.texts.options import RegressionTask

Scored = TextPrediction | NumberPrediction
router = ModelRouter()


@dataclass(frozen=True)
class Ranking:
    """Documents, the most relevant first, and what their scores are."""

    about: About
    documents: list[RankedDocument]
    task: str | None
    label: str | None = None
    similarity: SimilarityFunction | None = None


@router.post("/rerank")
async def rerank(body: RerankRequest, call: Call) -> RerankReply:
    """Rank documents by their relevance to a query, scored by a head of pairs or by vectors."""
    model, documents = await call.model(body), listed(body.documents)
    ranking = await rank_documents(model, body.task, body.query, documents, body.truncate)
    return RerankReply(
        **ranking.about,
        task=ranking.task,
        label=ranking.label,
        similarity=ranking.similarity,
        results=ranking.documents[: body.top_k],
    )


@router.post("/v1/rerank")
async def rank(body: RankRequest, call: Call) -> RankReply:
    """Rank documents by their relevance to a query, as clients of Cohere and Jina expect."""
    model = await call.model(body)
    documents = [each.text if isinstance(each, DocumentText) else each for each in body.documents]
    # these clients cannot ask for truncation; a header says how many documents were truncated
    ranking = await rank_documents(model, body.task, body.query, documents, truncate=True)
    ranked = []
    for found in ranking.documents[: body.top_n or body.top_k]:
        document = RelevantDocument(index=found.index, relevance_score=found.score)
        if body.return_documents:
            document.document = Document(documents[found.index])
        ranked.append(document)
    about = ranking.about
    call.headers = {
        "x-bertwright-sha256": about["sha256"],
        "x-bertwright-truncated": str(len(about["truncated"])),
    }
    return RankReply(
        id=f"rerank-{secrets.token_hex(12)}",
        model=about["model"],
        results=ranked,
        usage=Usage(prompt_tokens=about["tokens_used"], total_tokens=about["tokens_used"]),
    )


async def rank_documents(
    model: ModelCall, task: str | None, query: str, documents: list[str], truncate: bool
) -> Ranking:
    """Return documents by their relevance to a query, scored by a head of pairs or by vectors."""
    engine, call = model.engine, model.call
    name = _ranker(engine, task)
    if name is None or _trains_vectors(engine, name):
        found = await model.compute(query_items, query, documents, truncate, call.config)
        function = engine.model.similarity_function
        assert function is not None
        scores = await call.beside(_similarities, found.results, function)
        return Ranking(found.about, _ranked(scores), name, similarity=function)
    pairs = [(query, document) for document in documents]
    predicted = await model.predict(name, pairs, truncate)
    ranked = _ranked([_relevance(prediction) for prediction in predicted.results])
    labels = engine.model.tasks[name].labels
    return Ranking(predicted.about, ranked, name, label=labels[-1] if labels else None)


def _similarities(vectors: Sequence[Float32s], function: SimilarityFunction) -> list[float]:
    """Return the similarity of each vector to the first."""
    rows = np.stack(vectors)
    scores: list[float] = FUNCTIONS[function](rows[:1], rows[1:])[0].tolist()
    return scores


def _ranks(kind: Kind[TaskConfig, Any, Any, Any]) -> bool:
    """Return whether a task of a kind may rank documents."""
    return kind.vectors or kind.prediction in (TextPrediction, NumberPrediction)


def _trains_vectors(engine: Engine, name: str) -> bool:
    """Return whether a task trains sentence vectors."""
    return kind_of(engine.model.tasks[name].kind).vectors


def _has_sigmoid(task: TaskConfig) -> bool:
    return isinstance(task, RegressionTask) and task.activation == "sigmoid"


def _ranker(engine: Engine, name: str | None) -> str | None:
    """Return the task that ranks: the one named, or the only one trained on pairs, or the one that
    trained the vectors; None means vectors of a folder without a task."""
    model = engine.model
    if name is not None:
        named = choose_task(engine, name, kinds_that(_ranks))
        if _trains_vectors(engine, named) and named != _vector_task(engine):
            reason = "that task did not train the vectors that this model gives; leave out task"
            raise invalid_request(f"{engine.name}: {reason}", "which_task")
        return named
    tasks = {name: task for name, task in model.tasks.items() if task.compares_pairs}
    scoring = [name for name, task in tasks.items() if len(task.labels) in (0, 2)]
    known = [name for name in scoring if engine.reads_pairs(name)]
    if not known:  # rerankers whose folder does not mark them as cross-encoders
        known = [name for name in scoring if _has_sigmoid(tasks[name])]
    if not known and model.similarity_function is not None:
        return _vector_task(engine)
    if not tasks:
        has = ", ".join(model.heads) or "the encoder alone"
        raise NoHead(
            f"{engine.name} cannot rank documents, as it has neither a classification or "
            f"regression head of pairs nor sentence vectors; it has: {has}. Train sentence vectors "
            "with bertwright finetune similarity --model MODEL --train PAIRS --out RUN",
            kinds_that(_ranks),
        )
    if len(known) != 1:
        if known:
            reason = f"several heads score pairs; name one as task: {', '.join(known)}"
        else:
            reason = (
                "no head was trained on pairs with two classes or a number. Compare vectors by "
                f"/similarity, or name a head as task to score pairs by it: {', '.join(tasks)}"
            )
        raise invalid_request(f"{engine.name}: {reason}", "which_task")
    return known[0]


def _vector_task(engine: Engine) -> str | None:
    """Return the task that trained the vectors that the folder describes; None if it has none."""
    if engine.model.similarity_function is None:
        return None
    return next((name for name in engine.model.tasks if _trains_vectors(engine, name)), None)


def _ranked(scores: Sequence[float]) -> list[RankedDocument]:
    """Return documents, the most relevant first."""
    order = sorted(range(len(scores)), key=lambda number: -scores[number])
    return [RankedDocument(number, scores[number]) for number in order]


def _relevance(prediction: Scored) -> float:
    """Return the number, or the probability of the last class."""
    if isinstance(prediction, NumberPrediction):
        return prediction.value
    return list(prediction.scores.values())[-1]
