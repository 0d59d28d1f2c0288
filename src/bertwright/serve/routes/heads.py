"""Routes of the heads: masked LM, next sentence and the heads of tasks.

Replies have the schema of Hugging Face's inference tasks, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter

from bertwright.config.serve import ServeConfig
from bertwright.errors import DataError
from bertwright.inference.fill import find_blanks
from bertwright.inference.inputs import make_examples
from bertwright.inference.next_sentence import make_pair
from bertwright.serve import replies, schemas
from bertwright.serve.engine import Engine, RequestItem
from bertwright.serve.errors import HttpError, NoHead, invalid_request
from bertwright.serve.outputs import Fill, NextSentences, Task
from bertwright.serve.replies import Answered, Entity, FilledToken, LabelScore, RankedDocument, Span
from bertwright.serve.requests import (
    Json,
    Prepared,
    Truncation,
    check_characters,
    check_reply,
    check_texts,
    check_tokens,
    texts_in,
    truncation,
)
from bertwright.serve.routes.router import JsonRoute, model_route
from bertwright.serve.schemas import TaskRequest, listed
from bertwright.tasks import predictions
from bertwright.tasks.predictions import ChoicePrediction, NumberPrediction, TextPrediction
from bertwright.tasks.task_data import TaskData

router = APIRouter(route_class=JsonRoute)
OF_TEXTS = ("classification", "regression")
ANSWER = 64
"""Characters of an answer, about, beside its text or label: keys, a number, a token."""


@model_route(router, "/fill-mask", replies.Results[list[list[FilledToken]]])
def prepare_fill(engine: Engine, body: schemas.FillRequest, config: ServeConfig) -> Prepared:
    """The likeliest tokens of each [MASK]."""
    if "masked_lm" not in engine.model.heads:
        raise _no_head(engine, ("masked_lm",))
    (mask,) = engine.tokenizer.tokens_of([engine.tokenizer.mask_id])
    output, texts = Fill(engine), listed(body.input)
    top = min(body.top_k, len(engine.tokenizer.vocab))
    items, truncated = list[RequestItem](), list[Truncation]()
    tokens = characters = 0
    for number, text in enumerate(texts):
        try:
            blanks = find_blanks(engine.runner, text)
        except DataError as error:
            raise invalid_request(f"input {number} has no {mask}", "no_mask") from error
        if (excess := blanks.tokens - engine.longest) > 0:
            reason = f"input {number} has {blanks.tokens} tokens; this model reads {engine.longest}"
            reason += f" at once, truncated to what is around each {mask}"
            truncated.append(truncation(body.truncate, number, excess, reason))
        tokens += blanks.tokens_read
        check_tokens(tokens, config)
        characters += sum(map(len, blanks.positions)) * top * (ANSWER + len(text))
        check_reply(0, characters)
        items.append(RequestItem(output, blanks.sequences(), None, (blanks, top)))

    def finish(results: list[Any]) -> Json:
        found = zip(texts, results, strict=True)
        return {"results": [_filled(engine, mask, text, result) for text, result in found]}

    return Prepared(
        engine, items, finish, (engine.top,), truncated=truncated, characters=characters
    )


def _filled(engine: Engine, mask: str, text: str, blanks: list[Any]) -> list[list[FilledToken]]:
    parts, vocab = text.split(mask), engine.tokenizer.vocab
    found: list[list[FilledToken]] = []
    for number, blank in enumerate(blanks, 1):
        before, after = mask.join(parts[:number]), mask.join(parts[number:])
        found.append([])
        for token, score in blank:
            sequence = f"{before}{token}{after}"
            found[-1].append(FilledToken(score, vocab[token], token, sequence))
    return found


@model_route(router, "/next-sentence", replies.Results[replies.Probability])
def prepare_next(
    engine: Engine, body: schemas.NextSentenceRequest, config: ServeConfig
) -> Prepared:
    """Whether one text follows another."""
    if "next_sentence" not in engine.model.heads:
        raise _no_head(engine, ("next_sentence",))
    output = NextSentences(engine)
    items, truncated = list[RequestItem](), list[Truncation]()
    for number, (first, second) in enumerate(listed(body.input)):
        try:
            pair = make_pair(engine.runner, first, second)
        except DataError as error:
            raise invalid_request("this model reads no pairs", "no_pairs") from error
        if excess := pair.tokens_truncated:
            reason = f"pair {number} is {excess} tokens too long"
            truncated.append(truncation(body.truncate, number, excess, reason))
        items.append(RequestItem(output, [pair.ids], [pair.segments]))

    def finish(results: list[Any]) -> Json:
        return {"results": [{"probability": result} for result in results]}

    return Prepared(engine, items, finish, (engine.top,), truncated=truncated)


@model_route(router, "/classify", replies.TaskResults[list[LabelScore]])
def prepare_classify(
    engine: Engine, body: schemas.ClassifyRequest, config: ServeConfig
) -> Prepared:
    """Classes of a text, or a number."""

    def show(answer: Any) -> list[LabelScore]:
        return _classes(answer)[: body.top_k]

    prepared = _prepare_task(engine, body, OF_TEXTS, listed(body.input), show, config)
    labels = engine.model.tasks[task_name(engine, body.task, OF_TEXTS)].labels
    prepared.characters = len(prepared.items) * sum(ANSWER + len(label) for label in labels)
    return prepared


def _classes(answer: Any) -> list[LabelScore]:
    if isinstance(answer, NumberPrediction):
        return [LabelScore("value", answer.value)]
    assert isinstance(answer, TextPrediction)
    ordered = sorted(answer.scores.items(), key=lambda item: -item[1])
    return [LabelScore(*each) for each in ordered]


@model_route(router, "/tag", replies.TaskResults[replies.Tagged])
def prepare_tag(engine: Engine, body: schemas.TagRequest, config: ServeConfig) -> Prepared:
    """Tags of words, and the entities they mark."""
    return _prepare_task(engine, body, ("tagging",), listed(body.input), _tags, config)


def _tags(answer: predictions.TaggingPrediction) -> Json:
    entities = [Entity(x.label, x.score, x.text, x.start, x.end) for x in answer.entities]
    names = ("words", "tags", "scores", "offsets")
    return {"entities": entities, **{name: getattr(answer, name) for name in names}}


@model_route(router, "/answer", replies.TaskResults[Answered])
def prepare_answer(engine: Engine, body: schemas.AnswerRequest, config: ServeConfig) -> Prepared:
    """An answer as a slice of a passage."""
    inputs = [each.model_dump() for each in listed(body.input)]

    def show(answer: predictions.SpanPrediction) -> Answered:
        best = [Span(a.text, a.start, a.end, a.probability) for a in answer.n_best]
        own = [a.score for a in best if (a.start, a.end) == (answer.start, answer.end)]
        score, null = own[0] if own else 0.0, answer.null_score
        found = answer.answer, answer.start, answer.end, score
        return Answered(*found, null if np.isfinite(null) else None, best[: body.top_k])

    prepared = _prepare_task(engine, body, ("span",), inputs, show, config)
    prepared.characters = (1 + body.top_k) * sum(len(each["context"]) for each in inputs)
    return prepared


@model_route(router, "/choose", replies.TaskResults[ChoicePrediction])
def prepare_choose(engine: Engine, body: schemas.ChooseRequest, config: ServeConfig) -> Prepared:
    """The likeliest of several ways to go on."""
    inputs = [
        {**each.model_dump(exclude_none=True), "choices": listed(each.choices)}
        for each in listed(body.input)
    ]
    return _prepare_task(engine, body, ("multiple-choice",), inputs, lambda answer: answer, config)


@model_route(router, "/rerank", replies.RerankReply)
def prepare_rerank(engine: Engine, body: schemas.RerankRequest, config: ServeConfig) -> Prepared:
    """Documents by relevance, scored by a head of pairs."""
    name, top = _pair_task(engine, body.task), body.top_k
    labels = engine.model.tasks[name].labels
    pairs = [(body.query, document) for document in listed(body.documents)]
    items, truncated = task_items(engine, name, pairs, body.truncate, config)

    def finish(results: list[Any]) -> Json:
        scores = [_relevance(result) for result in results]
        order = sorted(range(len(scores)), key=lambda n: -scores[n])[:top]
        found = [RankedDocument(n, scores[n]) for n in order]
        return {"task": name, "label": labels[-1] if labels else None, "results": found}

    return Prepared(engine, items, finish, items[0].output.layers, truncated=truncated)


def _pair_task(engine: Engine, name: str | None) -> str:
    """The head that reads pairs: the one named, or the only one that was trained on pairs."""
    if name is not None:
        return task_name(engine, name, OF_TEXTS)
    tasks = {name: task for name, task in engine.model.tasks.items() if task.kind in OF_TEXTS}
    if not tasks:
        raise _no_head(engine, OF_TEXTS)
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


def _relevance(answer: Any) -> float:
    """A number, or the probability of the last class."""
    if isinstance(answer, NumberPrediction):
        return answer.value
    assert isinstance(answer, TextPrediction)
    return list(answer.scores.values())[-1]


def _no_head(engine: Engine, wanted: tuple[str, ...]) -> HttpError:
    has = ", ".join(engine.model.heads) or "the encoder alone"
    return NoHead(f"{engine.name} has no {' or '.join(wanted)} head; it has: {has}", wanted)


def task_name(engine: Engine, name: str | None, kinds: tuple[str, ...]) -> str:
    """The task that is meant; `HttpError` if none is."""
    known = [each for each, task in engine.model.tasks.items() if task.kind in kinds]
    if not known:
        raise _no_head(engine, kinds)
    if name is None and len(known) > 1:
        raise invalid_request(f"several tasks; name one as task: {', '.join(known)}", "which_task")
    if name is not None and name not in known:
        raise HttpError(404, "task_not_found", f"no such task; there are: {', '.join(known)}")
    return known[0] if name is None else name


def _prepare_task(
    engine: Engine,
    body: TaskRequest,
    kinds: tuple[str, ...],
    inputs: Sequence[Any],
    show: Callable[[Any], Any],
    config: ServeConfig,
) -> Prepared:
    name = task_name(engine, body.task, kinds)
    items, truncated = task_items(engine, name, inputs, body.truncate, config)

    def finish(results: list[Any]) -> Json:
        return {"task": name, "results": [show(result) for result in results]}

    return Prepared(engine, items, finish, items[0].output.layers, truncated=truncated)


def task_items(
    engine: Engine, name: str, inputs: Sequence[Any], truncate: bool, config: ServeConfig
) -> tuple[list[RequestItem], list[Truncation]]:
    """An item an input of a task; `HttpError` for one that it does not take, or that no window
    holds, or if it is too much in all, checked as the inputs come."""
    task, output, pairs = engine.model.tasks[name], Task(engine, name), engine.reads_pairs(name)
    items, truncated = list[RequestItem](), list[Truncation]()
    characters = tokens = 0
    for number, given in enumerate(inputs):
        if pairs is not None and pairs != isinstance(given, tuple):
            came, taught = ("one text", "pairs") if pairs else ("a pair", "single texts")
            reason = f"input {number} is {came}; {name} was trained on {taught}"
            raise invalid_request(reason, "needs_pair" if pairs else "no_pairs")
        texts = _texts_read(given)
        characters += sum(map(len, texts))
        check_characters(characters, config)
        check_texts(engine, texts, tokens, config)
        try:
            data = TaskData(name, task, engine.tokenizer, make_examples(task, [given]))
        except DataError as error:  # its message may hold the text
            reason = f"input {number} is not one that a {task.kind} task takes"
            raise invalid_request(reason) from error
        if data.lengths.cut:
            reason = f"input {number} fits no window of {task.max_length} tokens"
            truncated.append(truncation(truncate, number, data.lengths.tokens_cut, reason))
        ids = [each for instance in data.instances for each in instance.ids]
        segments = [each for instance in data.instances for each in instance.segments]
        items.append(RequestItem(output, ids, segments if any(map(any, segments)) else None, data))
        tokens += items[-1].tokens
        check_tokens(tokens, config)
    return items, truncated


def _texts_read(given: Any) -> list[str]:
    """The texts of a task's input, as often as they are read: those before choices, with each."""
    if isinstance(given, dict) and "choices" in given:
        before = given["text"], given.get("text2") or ""
        return [text for choice in given["choices"] for text in (*before, choice)]
    return list(texts_in(given))
