"""Routes that rank documents by their relevance to a query: /rerank, and /v1/rerank as Cohere and
Jina have it.

A head that was trained on pairs reads the query with each document (a cross-encoder): the score is
its number, or the probability of the last of its two classes. A model of sentence vectors reads the
query and each document alone (a bi-encoder): the score is the similarity of their vectors, by the
function and with the prompts of its folder.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from starlette.responses import Response

from bertwright.arrays import Float32s
from bertwright.config.serve import ServeConfig
from bertwright.config.task import TaskConfig
from bertwright.config.vectors import (
    OF_DOCUMENTS,
    OF_QUERIES,
    SimilarityFunction,
    usual_prompt,
)
from bertwright.inference.vectors.compare import FUNCTIONS
from bertwright.inference.vectors.embed import with_prompt
from bertwright.serve.bodies import make_router
from bertwright.serve.calls import Call
from bertwright.serve.engine.engine import SIMILARITY, Engine
from bertwright.serve.engine.outputs import Vectors
from bertwright.serve.errors import NoHead, invalid_request
from bertwright.serve.preparing import (
    Prepared,
    R,
    check_characters,
    items_of,
    request_vectors,
    tokenize_texts,
    truncation,
)
from bertwright.serve.routes.heads import OF_TEXTS, task_items, task_name
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
from bertwright.tasks.predictions import NumberPrediction, TextPrediction
from bertwright.tasks.similarity.options import SimilarityTask
from bertwright.tasks.texts.options import RegressionTask

Scored = TextPrediction | NumberPrediction
RANKING = (*OF_TEXTS, SIMILARITY)
"""The kinds of tasks that may rank documents."""
router = make_router()


class Ranking(NamedTuple):
    """Documents, the most relevant first, and what their scores are."""

    task: str | None
    label: str | None
    similarity: SimilarityFunction | None
    documents: list[RankedDocument]


@router.post("/rerank", response_model=RerankReply)
async def rerank(body: RerankRequest, call: Call) -> Response:
    """Rank documents by their relevance to a query, scored by a head of pairs or by vectors."""
    return await call.reply(prepare_rerank, body)


def prepare_rerank(
    engine: Engine, body: RerankRequest, config: ServeConfig
) -> Prepared[RerankReply]:
    """Tokenize the query and the documents of `/rerank`."""
    top = body.top_k

    def reply(ranking: Ranking, about: About) -> RerankReply:
        return RerankReply(
            **about,
            task=ranking.task,
            label=ranking.label,
            similarity=ranking.similarity,
            results=ranking.documents[:top],
        )

    documents = listed(body.documents)
    return _prepare(engine, body.task, body.query, documents, body.truncate, config, reply)


@router.post("/v1/rerank", response_model=RankReply)
async def rank(body: RankRequest, call: Call) -> Response:
    """Rank documents by their relevance to a query, as clients of Cohere and Jina expect."""
    return await call.reply(prepare_rank, body)


def prepare_rank(engine: Engine, body: RankRequest, config: ServeConfig) -> Prepared[RankReply]:
    """Tokenize the query and the documents of `/v1/rerank`.

    As these clients cannot ask for truncation, what is too long is truncated, and a header says
    how many documents were.
    """
    documents = [each.text if isinstance(each, DocumentText) else each for each in body.documents]
    identity = f"rerank-{secrets.token_hex(12)}"

    def reply(ranking: Ranking, about: About) -> RankReply:
        ranked = []
        for found in ranking.documents[: body.top_n or body.top_k]:
            document = RelevantDocument(index=found.index, relevance_score=found.score)
            if body.return_documents:
                document.document = Document(documents[found.index])
            ranked.append(document)
        tokens = about["tokens_used"]
        usage = Usage(prompt_tokens=tokens, total_tokens=tokens)
        return RankReply(id=identity, model=about["model"], results=ranked, usage=usage)

    prepared = _prepare(engine, body.task, body.query, documents, True, config, reply)
    prepared.headers = {
        "x-bertwright-sha256": engine.sha256,
        "x-bertwright-truncated": str(len(prepared.truncated)),
    }
    return prepared


def _prepare(
    engine: Engine,
    task: str | None,
    query: str,
    documents: list[str],
    truncate: bool,
    config: ServeConfig,
    reply: Callable[[Ranking, About], R],
) -> Prepared[R]:
    """Return the request that ranks documents; `reply` makes the reply from the ranking."""
    name = _ranker(engine, task)
    if name is None or isinstance(engine.model.tasks[name], SimilarityTask):
        return _by_vectors(engine, name, query, documents, truncate, config, reply)
    pairs = [(query, document) for document in documents]
    items, truncated = task_items(engine, name, pairs, truncate, config)
    labels = engine.model.tasks[name].labels

    def finish(results: list[Scored], about: About) -> R:
        ranked = _ranked([_relevance(prediction) for prediction in results])
        return reply(Ranking(name, labels[-1] if labels else None, None, ranked), about)

    return Prepared(engine, items, finish, items[0].output.layers, truncated=truncated)


def _by_vectors(
    engine: Engine,
    task: str | None,
    query: str,
    documents: list[str],
    truncate: bool,
    config: ServeConfig,
    reply: Callable[[Ranking, About], R],
) -> Prepared[R]:
    """Return the request that ranks documents by the similarity of their vectors to the query's.

    A document counts as truncated if it or the query loses tokens, as in a pair of the two.
    """
    of_query, of_document = _prompt(engine, OF_QUERIES), _prompt(engine, OF_DOCUMENTS)
    texts = [*with_prompt(of_query, [query]), *with_prompt(of_document, [*documents])]
    check_characters(sum(map(len, texts)), config)
    vectors, function = engine.default, engine.model.similarity_function
    assert function is not None
    tokenized, cut = tokenize_texts(engine, texts, True, longest=engine.vector_tokens)
    lost = {each.input: each.tokens_cut for each in cut}
    truncated = []
    for number in range(len(documents)):
        if tokens := lost.get(0, 0) + lost.get(number + 1, 0):
            too_long = "the query" if 0 in lost else f"document {number}"
            reason = f"{too_long} has more than the {engine.vector_tokens} tokens of a vector"
            truncated.append(truncation(truncate, number, tokens, reason))

    def finish(results: list[Float32s], about: About) -> R:
        made = np.stack(results)
        scores = FUNCTIONS[function](made[:1], made[1:])[0].tolist()
        return reply(Ranking(task, None, function, _ranked(scores)), about)

    items = items_of(Vectors(engine, vectors), tokenized)
    return request_vectors(engine, vectors, items, finish, truncated, len(texts))


def _prompt(engine: Engine, names: Sequence[str]) -> str:
    """Return the folder's prompt of one of these names, else its default prompt."""
    found = usual_prompt(engine.prompts, names)
    return engine.default.prompt if found is None else found


def _has_sigmoid(task: TaskConfig) -> bool:
    return isinstance(task, RegressionTask) and task.activation == "sigmoid"


def _ranker(engine: Engine, name: str | None) -> str | None:
    """Return the task that ranks: the one named, or the only one trained on pairs, or the one that
    trained the vectors; None means vectors of a folder without a task."""
    model = engine.model
    if name is not None:
        named = task_name(engine, name, RANKING)
        if isinstance(model.tasks[named], SimilarityTask) and named != _vector_task(engine):
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
            RANKING,
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
    tasks = engine.model.tasks.items()
    if engine.model.similarity_function is None:
        return None
    return next((name for name, task in tasks if isinstance(task, SimilarityTask)), None)


def _ranked(scores: Sequence[float]) -> list[RankedDocument]:
    """Return documents, the most relevant first."""
    order = sorted(range(len(scores)), key=lambda number: -scores[number])
    return [RankedDocument(number, scores[number]) for number in order]


def _relevance(prediction: Scored) -> float:
    """Return the number, or the probability of the last class."""
    if isinstance(prediction, NumberPrediction):
        return prediction.value
    return list(prediction.scores.values())[-1]
