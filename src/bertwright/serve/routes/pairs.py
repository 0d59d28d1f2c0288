"""Routes of what belongs together: /rerank, a query and texts; /attention, tokens and tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from bertwright.config.serve import ServeConfig
from bertwright.config.vectors import OF_DOCUMENTS, OF_QUERIES, usual_prompt
from bertwright.serve import schemas as shapes
from bertwright.serve.engine import Engine, Work
from bertwright.serve.errors import bad
from bertwright.serve.outputs import Attention
from bertwright.serve.requests import (
    Plan,
    Route,
    cosines,
    cut_texts,
    refuse_twice,
    vector_config,
)
from bertwright.serve.routes.heads import TASK, plan_task, task_of
from bertwright.serve.routes.vectors import VECTORS, plan_vectors
from bertwright.serve.schemas import MODEL, Args, Key, Shape
from bertwright.tasks.predictions import NumberPrediction, TextPrediction


def _rerank(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    query, documents = args["query"], args["documents"]
    name = _pair_task(engine, args["task"])
    labels = () if name is None else engine.model.tasks[name].labels
    label = labels[-1] if labels else None
    if name is None:
        plan = _plan_cosines(engine, args)
    else:
        pairs = [(query, document) for document in documents]
        works, truncated = plan_task(engine, name, pairs, args["truncate"], config)
        layers = works[0].reader.layers
        plan = Plan(engine, works, lambda _: {}, layers, truncated=truncated)

    def finish(answers: list[Any]) -> Args:
        if name is None:
            vectors = np.stack(answers)
            scores = cosines(vectors[:1], vectors[1:])[0].tolist()
        else:
            scores = [_relevance(answer) for answer in answers]
        order = sorted(range(len(documents)), key=lambda n: -scores[n])[: args["top_k"]]
        found = [{"index": n, "score": scores[n]} for n in order]
        if args["return_documents"]:
            found = [{**each, "document": documents[each["index"]]} for each in found]
        return {"results": found, "scored_by": name or "cosine", "label": label}

    plan.finish = finish
    return plan


def _plan_cosines(engine: Engine, args: Args) -> Plan:
    """Vectors of the query, then of the documents, each with the prompt that the folder has for
    such texts, else its default."""
    how, prompts = vector_config(engine, args), engine.prompts
    of_query, of_documents = (
        how.over(prompt=usual_prompt(prompts, names)) for names in (OF_QUERIES, OF_DOCUMENTS)
    )
    first = plan_vectors(
        engine, [args["query"]], of_query, args["truncate"], called=lambda number: "query"
    )
    plan = plan_vectors(
        engine,
        args["documents"],
        of_documents,
        args["truncate"],
        called=lambda number: f"document {number}",
    )
    plan.works = [*first.works, *plan.works]
    plan.truncated = [*first.truncated, *plan.truncated]
    plan.numbers += first.numbers
    plan.prompt = "default" if of_query.prompt or of_documents.prompt else "none"
    return plan


def _pair_task(engine: Engine, asked: str | None) -> str | None:
    """The head that judges pairs: the one asked for, or the only one that learned from pairs."""
    if asked is not None:
        return task_of(engine, asked, ("classification", "regression"))
    known = [
        name
        for name, task in engine.model.tasks.items()
        if engine.reads_pairs(name) and (task.kind == "regression" or len(task.labels) == 2)
    ]
    return known[0] if len(known) == 1 else None


def _relevance(answer: Any) -> float:
    """A number, or the probability of the last class."""
    if isinstance(answer, NumberPrediction):
        return answer.value
    assert isinstance(answer, TextPrediction)
    return list(answer.scores.values())[-1]


def _attention(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    text = args["input"]
    cuts = cut_texts(engine, [text], args["truncate"])
    numbers = args["layers"] or tuple(range(1, engine.top + 1))
    if not all(1 <= number <= engine.top for number in numbers):
        raise bad(f"layers must be from 1 to {engine.top}", "no_layer")
    refuse_twice(engine, numbers)
    (ids,) = cuts.ids[0]
    types = (cuts.types[0] or [[0] * len(ids)])[0]
    encoding = engine.tokenizer.encode(*([text] if isinstance(text, str) else text))
    whole = len(encoding.ids) == len(ids)

    def finish(answers: list[Any]) -> Args:
        return {
            "tokens": engine.tokenizer.tokens_of(ids),
            "offsets": encoding.offsets if whole else None,
            "type_ids": types,
            "attentions": np.round(answers[0], 4),
        }

    works = [Work(Attention(engine, numbers), [ids], cuts.types[0])]
    count = len(numbers) * engine.config.num_attention_heads * len(ids) ** 2
    return Plan(engine, works, finish, numbers, truncated=cuts.truncated, numbers=count)


ROUTES = (
    Route(
        "/rerank",
        Shape(
            {
                "query": Key(shapes.TEXT, "What is looked for.", True),
                "documents": Key(shapes.TEXTS, "What is put in order.", True),
                **MODEL,
                **TASK,
                **VECTORS,
                "top_k": Key(shapes.number(1, 1 << 20), "How many, at most; unset: all."),
                "return_documents": Key(shapes.FLAG, "Send the texts back.", default=False),
            },
            example={"query": "a text", "documents": ["a", "b"]},
        ),
        _rerank,
        "Documents by their relevance: a head that learned from pairs, else cosines.",
    ),
    Route(
        "/attention",
        Shape(
            {
                "input": Key(shapes.TEXT_OR_PAIR, "A text or a pair.", True, aliases=("inputs",)),
                **MODEL,
                "layers": Key(shapes.LAYERS, "From 1; unset: all."),
            },
            example={"input": "a text"},
        ),
        _attention,
        "Who attends to whom, by layer and attention head.",
    ),
)
