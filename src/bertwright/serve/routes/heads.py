"""Routes of the heads: masked LM, next sentence and the heads of tasks.

Replies have the schema of Hugging Face's inference tasks, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from starlette.responses import Response

from bertwright.config.serve import ServeConfig
from bertwright.errors import DataError
from bertwright.inference.fill import find_blanks
from bertwright.inference.inputs import make_examples
from bertwright.inference.next_sentence import make_pair
from bertwright.serve.bodies import make_router
from bertwright.serve.calls import Call
from bertwright.serve.engine.engine import Engine, RequestItem
from bertwright.serve.engine.outputs import Fill, NextSentences, Task
from bertwright.serve.errors import HttpError, NoHead, invalid_request
from bertwright.serve.preparing import (
    Prepared,
    check_characters,
    check_reply,
    check_texts,
    check_tokens,
    texts_in,
    truncation,
)
from bertwright.serve.schemas import requests as schemas
from bertwright.serve.schemas.replies import (
    About,
    Answered,
    Entity,
    FilledToken,
    LabelScore,
    Probability,
    Results,
    Span,
    Tagged,
    TaskResults,
    Truncated,
)
from bertwright.serve.schemas.requests import TaskRequest, listed
from bertwright.tasks.predictions import (
    ChoicePrediction,
    NumberPrediction,
    SpanPrediction,
    TaggingPrediction,
    TextPrediction,
)
from bertwright.tasks.tagging.kind import TaggingKind
from bertwright.tasks.task_data import TaskData

P = TypeVar("P")
"""What a head predicts for an input."""
T = TypeVar("T")
"""The result of an input in the reply."""
Filled = list[list[FilledToken]]
"""The most probable tokens of each mask position of a text."""
Scored = Sequence[tuple[str, float]]
"""Tokens and their probabilities."""
router = make_router()
OF_TEXTS = ("classification", "regression")
ANSWER = 64
"""The approximate characters of an answer beside its text or label: keys, a number, a token."""


@router.post("/fill-mask", response_model=Results[Filled])
async def fill_mask(body: schemas.FillRequest, call: Call) -> Response:
    """Return the most probable tokens for each mask position."""
    return await call.reply(prepare_fill, body)


def prepare_fill(
    engine: Engine, body: schemas.FillRequest, config: ServeConfig
) -> Prepared[Results[Filled]]:
    """Tokenize the texts of `/fill-mask`."""
    if "masked_lm" not in engine.model.heads:
        raise no_head(engine, ("masked_lm",))
    (mask,) = engine.tokenizer.tokens_of([engine.tokenizer.mask_id])
    output, texts = Fill(engine), listed(body.input)
    top = min(body.top_k, len(engine.tokenizer.vocab))
    items, truncated = list[RequestItem](), list[Truncated]()
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

    def finish(results: list[Sequence[Scored]], about: About) -> Results[Filled]:
        filled = [
            _filled(engine, mask, text, result) for text, result in zip(texts, results, strict=True)
        ]
        return Results[Filled](**about, results=filled)

    return Prepared(
        engine, items, finish, (engine.top,), truncated=truncated, characters=characters
    )


def _filled(engine: Engine, mask: str, text: str, blanks: Sequence[Scored]) -> Filled:
    """Return the tokens of each mask position, each with the text in which it replaces the mask."""
    parts, vocab = text.split(mask), engine.tokenizer.vocab
    filled: Filled = []
    for number, tokens in enumerate(blanks, 1):
        before, after = mask.join(parts[:number]), mask.join(parts[number:])
        filled.append(
            [
                FilledToken(score, vocab[token], token, f"{before}{token}{after}")
                for token, score in tokens
            ]
        )
    return filled


@router.post("/next-sentence", response_model=Results[Probability])
async def next_sentence(body: schemas.NextSentenceRequest, call: Call) -> Response:
    """Return the probability that one text follows another."""
    return await call.reply(prepare_next, body)


def prepare_next(
    engine: Engine, body: schemas.NextSentenceRequest, config: ServeConfig
) -> Prepared[Results[Probability]]:
    """Tokenize the pairs of `/next-sentence`."""
    if "next_sentence" not in engine.model.heads:
        raise no_head(engine, ("next_sentence",))
    output = NextSentences(engine)
    items, truncated = list[RequestItem](), list[Truncated]()
    for number, (first, second) in enumerate(listed(body.input)):
        try:
            pair = make_pair(engine.runner, first, second)
        except DataError as error:
            raise invalid_request("this model reads no pairs", "no_pairs") from error
        if excess := pair.tokens_truncated:
            reason = f"pair {number} is {excess} tokens too long"
            truncated.append(truncation(body.truncate, number, excess, reason))
        items.append(RequestItem(output, [pair.ids], [pair.segments]))

    def finish(results: list[float], about: About) -> Results[Probability]:
        probabilities = [Probability(probability=result) for result in results]
        return Results[Probability](**about, results=probabilities)

    return Prepared(engine, items, finish, (engine.top,), truncated=truncated)


@router.post("/classify", response_model=TaskResults[list[LabelScore]])
async def classify(body: schemas.ClassifyRequest, call: Call) -> Response:
    """Return the classes of each text or pair, the most probable first, or a number."""
    return await call.reply(prepare_classify, body)


def prepare_classify(
    engine: Engine, body: schemas.ClassifyRequest, config: ServeConfig
) -> Prepared[TaskResults[list[LabelScore]]]:
    """Tokenize the texts of `/classify`."""

    def show(prediction: TextPrediction | NumberPrediction) -> list[LabelScore]:
        return _classes(prediction)[: body.top_k]

    prepared = _prepare_task(engine, body, OF_TEXTS, listed(body.input), show, config)
    labels = engine.model.tasks[task_name(engine, body.task, OF_TEXTS)].labels
    prepared.characters = len(prepared.items) * sum(ANSWER + len(label) for label in labels)
    return prepared


def _classes(prediction: TextPrediction | NumberPrediction) -> list[LabelScore]:
    if isinstance(prediction, NumberPrediction):
        return [LabelScore("value", prediction.value)]
    ordered = sorted(prediction.scores.items(), key=lambda item: -item[1])
    return [LabelScore(*each) for each in ordered]


@router.post("/tag", response_model=TaskResults[Tagged])
async def tag(body: schemas.TagRequest, call: Call) -> Response:
    """Return the tags of words, and the entities that they mark."""
    return await call.reply(prepare_tag, body)


def prepare_tag(
    engine: Engine, body: schemas.TagRequest, config: ServeConfig
) -> Prepared[TaskResults[Tagged]]:
    """Tokenize the texts of `/tag`."""
    return _prepare_task(engine, body, (TaggingKind.name,), listed(body.input), _tags, config)


def _tags(prediction: TaggingPrediction) -> Tagged:
    return Tagged(
        entities=[
            Entity(entity.label, entity.score, entity.text, entity.start, entity.end)
            for entity in prediction.entities
        ],
        words=list(prediction.words),
        tags=list(prediction.tags),
        scores=list(prediction.scores),
        offsets=None if prediction.offsets is None else list(prediction.offsets),
    )


@router.post("/answer", response_model=TaskResults[Answered])
async def answer(body: schemas.AnswerRequest, call: Call) -> Response:
    """Return the answer to a question as a slice of a passage."""
    return await call.reply(prepare_answer, body)


def prepare_answer(
    engine: Engine, body: schemas.AnswerRequest, config: ServeConfig
) -> Prepared[TaskResults[Answered]]:
    """Tokenize the questions and passages of `/answer`."""
    inputs = [each.model_dump() for each in listed(body.input)]

    def show(prediction: SpanPrediction) -> Answered:
        start, end = prediction.start, prediction.end
        best = [Span(a.text, a.start, a.end, a.probability) for a in prediction.n_best]
        scores = [span.score for span in best if (span.start, span.end) == (start, end)]
        null = prediction.null_score if np.isfinite(prediction.null_score) else None
        score = scores[0] if scores else 0.0
        return Answered(prediction.answer, start, end, score, null, best[: body.top_k])

    prepared = _prepare_task(engine, body, ("span",), inputs, show, config)
    prepared.characters = (1 + body.top_k) * sum(len(each["context"]) for each in inputs)
    return prepared


@router.post("/choose", response_model=TaskResults[ChoicePrediction])
async def choose(body: schemas.ChooseRequest, call: Call) -> Response:
    """Return the most probable of several continuations of a text."""
    return await call.reply(prepare_choose, body)


def prepare_choose(
    engine: Engine, body: schemas.ChooseRequest, config: ServeConfig
) -> Prepared[TaskResults[ChoicePrediction]]:
    """Tokenize the texts and choices of `/choose`."""
    inputs = [
        {**each.model_dump(exclude_none=True), "choices": listed(each.choices)}
        for each in listed(body.input)
    ]

    def show(prediction: ChoicePrediction) -> ChoicePrediction:
        return prediction

    return _prepare_task(engine, body, ("multiple-choice",), inputs, show, config)


def no_head(engine: Engine, wanted: tuple[str, ...]) -> NoHead:
    """Return the error that a model has none of the heads that a route reads."""
    has = ", ".join(engine.model.heads) or "the encoder alone"
    return NoHead(f"{engine.name} has no {' or '.join(wanted)} head; it has: {has}", wanted)


def task_name(engine: Engine, name: str | None, kinds: tuple[str, ...]) -> str:
    """Return the task that a request means, or raise `HttpError`."""
    known = [each for each, task in engine.model.tasks.items() if task.kind in kinds]
    if not known:
        raise no_head(engine, kinds)
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
    show: Callable[[P], T],
    config: ServeConfig,
) -> Prepared[TaskResults[T]]:
    """Tokenize the inputs of a task; `show` makes the result of an input from its prediction."""
    name = task_name(engine, body.task, kinds)
    items, truncated = task_items(engine, name, inputs, body.truncate, config)

    def finish(predictions: list[P], about: About) -> TaskResults[T]:
        return TaskResults(**about, task=name, results=list(map(show, predictions)))

    return Prepared(engine, items, finish, items[0].output.layers, truncated=truncated)


def task_items(
    engine: Engine, name: str, inputs: Sequence[Any], truncate: bool, config: ServeConfig
) -> tuple[list[RequestItem], list[Truncated]]:
    """Return an item for each input of a task, and what was truncated.

    Raises:
        HttpError: the task does not take an input, no window holds it, or the inputs are too much.
    """
    task, output, pairs = engine.model.tasks[name], Task(engine, name), engine.reads_pairs(name)
    items, truncated = list[RequestItem](), list[Truncated]()
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
        except DataError as error:  # its message may have the text
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
    """Return the texts of an input as often as the model reads them: those before choices are read
    with each choice."""
    if isinstance(given, dict) and "choices" in given:
        before = given["text"], given.get("text2") or ""
        return [text for choice in given["choices"] for text in (*before, choice)]
    return list(texts_in(given))
