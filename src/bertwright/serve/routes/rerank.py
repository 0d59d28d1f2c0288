"""Routes that rank documents by their relevance to a query: /rerank, and /v1/rerank as Cohere and
Jina have it.

A head that was trained on pairs scores the query with each document: by its number, or by the
probability of the last of its two classes.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from starlette.responses import Response

from bertwright.config.serve import ServeConfig
from bertwright.serve.errors import invalid_request
from bertwright.serve.http.bodies import make_router
from bertwright.serve.messages.calls import Call
from bertwright.serve.messages.replies import (
    About,
    Document,
    RankedDocument,
    RankReply,
    RelevantDocument,
    RerankReply,
    Usage,
)
from bertwright.serve.messages.requests import Prepared
from bertwright.serve.messages.schemas import DocumentText, RankRequest, RerankRequest, listed
from bertwright.serve.models.engine import Engine
from bertwright.serve.routes.heads import OF_TEXTS, no_head, task_items, task_name
from bertwright.tasks.predictions import NumberPrediction, TextPrediction

Scored = TextPrediction | NumberPrediction
router = make_router()


@router.post("/rerank", response_model=RerankReply)
async def rerank(body: RerankRequest, call: Call) -> Response:
    """Rank documents by their relevance to a query, scored by a head of pairs."""
    return await call.reply(prepare_rerank, body)


def prepare_rerank(
    engine: Engine, body: RerankRequest, config: ServeConfig
) -> Prepared[RerankReply]:
    """Tokenize the query with each document of `/rerank`."""
    name, top = _pair_task(engine, body.task), body.top_k
    labels = engine.model.tasks[name].labels
    pairs = [(body.query, document) for document in listed(body.documents)]
    items, truncated = task_items(engine, name, pairs, body.truncate, config)

    def finish(results: list[Scored], about: About) -> RerankReply:
        ranked = _ranked(results)[:top]
        label = labels[-1] if labels else None
        return RerankReply(**about, task=name, label=label, results=ranked)

    return Prepared(engine, items, finish, items[0].output.layers, truncated=truncated)


@router.post("/v1/rerank", response_model=RankReply)
async def rank(body: RankRequest, call: Call) -> Response:
    """Rank documents by their relevance to a query, as clients of Cohere and Jina expect."""
    return await call.reply(prepare_rank, body)


def prepare_rank(engine: Engine, body: RankRequest, config: ServeConfig) -> Prepared[RankReply]:
    """Tokenize the query with each document of `/v1/rerank`.

    As these clients cannot ask for truncation, what is too long is truncated, and a header says
    how many documents were.
    """
    name = _pair_task(engine, body.task)
    documents = [each.text if isinstance(each, DocumentText) else each for each in body.documents]
    pairs = [(body.query, document) for document in documents]
    items, truncated = task_items(engine, name, pairs, True, config)
    identity = f"rerank-{secrets.token_hex(12)}"

    def finish(results: list[Scored], about: About) -> RankReply:
        ranked = []
        for found in _ranked(results)[: body.top_n]:
            document = RelevantDocument(index=found.index, relevance_score=found.score)
            if body.return_documents:
                document.document = Document(documents[found.index])
            ranked.append(document)
        tokens = about["tokens_used"]
        usage = Usage(prompt_tokens=tokens, total_tokens=tokens)
        return RankReply(id=identity, model=about["model"], results=ranked, usage=usage)

    headers = {
        "x-bertwright-sha256": engine.sha256,
        "x-bertwright-truncated": str(len(truncated)),
    }
    layers = items[0].output.layers
    return Prepared(engine, items, finish, layers, truncated=truncated, headers=headers)


def _pair_task(engine: Engine, name: str | None) -> str:
    """Return the head that scores pairs: the one named, or the only one trained on pairs."""
    if name is not None:
        return task_name(engine, name, OF_TEXTS)
    tasks = {name: task for name, task in engine.model.tasks.items() if task.kind in OF_TEXTS}
    if not tasks:
        raise no_head(engine, OF_TEXTS)
    scoring = [name for name, task in tasks.items() if len(task.labels) in (0, 2)]
    known = [name for name in scoring if engine.reads_pairs(name)]
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


def _ranked(predictions: Sequence[Scored]) -> list[RankedDocument]:
    """Return documents, the most relevant first."""
    scores = [_relevance(prediction) for prediction in predictions]
    order = sorted(range(len(scores)), key=lambda number: -scores[number])
    return [RankedDocument(number, scores[number]) for number in order]


def _relevance(prediction: Scored) -> float:
    """Return the number, or the probability of the last class."""
    if isinstance(prediction, NumberPrediction):
        return prediction.value
    return list(prediction.scores.values())[-1]
