"""Routes of the heads: masked LM, next sentence and the heads of tasks.

Replies have the schema of Hugging Face's inference tasks, where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertwright.serve.calls import Call
from bertwright.serve.engine.engine import Engine
from bertwright.serve.engine.items import ANSWER, blank_items, pair_items
from bertwright.serve.errors import HttpError, NoHead, invalid_request
from bertwright.serve.routing import ModelRouter
from bertwright.serve.schemas.replies import (
    Answered,
    Entity,
    FilledToken,
    LabelScore,
    Probability,
    Results,
    Span,
    Tagged,
    TaskResults,
)
from bertwright.serve.schemas.requests import (
    AnswerRequest,
    ChooseRequest,
    ClassifyRequest,
    FillRequest,
    NextSentenceRequest,
    TagRequest,
    listed,
)
from bertwright.tasks.catalogue import kinds_that
from bertwright.tasks.predictions import (
    ChoicePrediction,
    NumberPrediction,
    SpanPrediction,
    TaggingPrediction,
    TextPrediction,
)

Filled = list[list[FilledToken]]
"""The most probable tokens of each mask position of a text."""
Scored = Sequence[tuple[str, float]]
"""Tokens and their probabilities."""
router = ModelRouter()


@router.post("/fill-mask")
async def fill_mask(body: FillRequest, call: Call) -> Results[Filled]:
    """Return the most probable tokens for each mask position."""
    model, texts = await call.model(body), listed(body.input)
    if "masked_lm" not in model.engine.model.heads:
        raise no_head(model.engine, ("masked_lm",))
    top = min(body.top_k, len(model.engine.tokenizer.vocab))
    found = await model.compute(blank_items, texts, top, body.truncate, call.config)
    filled = await call.beside(_filled, model.engine, texts, found.results)
    return Results[Filled](**found.about, results=filled)


def _filled(
    engine: Engine, texts: Sequence[str], results: Sequence[Sequence[Scored]]
) -> list[Filled]:
    """Return the tokens of each mask position, each with the text in which it replaces the mask."""
    vocab, (mask,) = engine.tokenizer.vocab, engine.tokenizer.tokens_of([engine.tokenizer.mask_id])
    of_texts = list[Filled]()
    for text, blanks in zip(texts, results, strict=True):
        parts, filled = text.split(mask), Filled()
        for number, tokens in enumerate(blanks, 1):
            before, after = mask.join(parts[:number]), mask.join(parts[number:])
            filled.append(
                [
                    FilledToken(score, vocab[token], token, f"{before}{token}{after}")
                    for token, score in tokens
                ]
            )
        of_texts.append(filled)
    return of_texts


@router.post("/next-sentence")
async def next_sentence(body: NextSentenceRequest, call: Call) -> Results[Probability]:
    """Return the probability that one text follows another."""
    model = await call.model(body)
    if "next_sentence" not in model.engine.model.heads:
        raise no_head(model.engine, ("next_sentence",))
    found = await model.compute(pair_items, listed(body.input), body.truncate)
    probabilities = [Probability(probability=result) for result in found.results]
    return Results[Probability](**found.about, results=probabilities)


@router.post("/classify")
async def classify(body: ClassifyRequest, call: Call) -> TaskResults[list[LabelScore]]:
    """Return the classes of each text or pair, the most probable first, or a number."""
    model, inputs = await call.model(body), listed(body.input)
    task = task_that_predicts(model.engine, body.task, TextPrediction, NumberPrediction)
    labels = model.engine.model.tasks[task].labels
    characters = len(inputs) * sum(ANSWER + len(label) for label in labels)
    found = await model.predict(task, inputs, body.truncate, characters)
    results = await call.beside(_classes, found.results, body.top_k)
    return TaskResults[list[LabelScore]](**found.about, task=task, results=results)


def _classes(
    predictions: Sequence[TextPrediction | NumberPrediction], top: int | None
) -> list[list[LabelScore]]:
    """Return the most probable classes of each text, or its number."""
    classes = []
    for prediction in predictions:
        if isinstance(prediction, NumberPrediction):
            classes.append([LabelScore("value", prediction.value)])
        else:
            ordered = sorted(prediction.scores.items(), key=lambda item: -item[1])
            classes.append([LabelScore(*each) for each in ordered[:top]])
    return classes


@router.post("/tag")
async def tag(body: TagRequest, call: Call) -> TaskResults[Tagged]:
    """Return the tags of words, and the entities that they mark."""
    model = await call.model(body)
    task = task_that_predicts(model.engine, body.task, TaggingPrediction)
    found = await model.predict(task, listed(body.input), body.truncate)
    results = await call.beside(_tagged, found.results)
    return TaskResults[Tagged](**found.about, task=task, results=results)


def _tagged(predictions: Sequence[TaggingPrediction]) -> list[Tagged]:
    """Return the tags and entities of each text."""
    return [
        Tagged(
            entities=[
                Entity(entity.label, entity.score, entity.text, entity.start, entity.end)
                for entity in prediction.entities
            ],
            words=list(prediction.words),
            tags=list(prediction.tags),
            scores=list(prediction.scores),
            offsets=None if prediction.offsets is None else list(prediction.offsets),
        )
        for prediction in predictions
    ]


@router.post("/answer")
async def answer(body: AnswerRequest, call: Call) -> TaskResults[Answered]:
    """Return the answer to a question as a slice of a passage."""
    model = await call.model(body)
    task = task_that_predicts(model.engine, body.task, SpanPrediction)
    inputs = [each.model_dump() for each in listed(body.input)]
    characters = (1 + body.top_k) * sum(len(each["context"]) for each in inputs)
    found = await model.predict(task, inputs, body.truncate, characters)
    results = await call.beside(_answers, found.results, body.top_k)
    return TaskResults[Answered](**found.about, task=task, results=results)


def _answers(predictions: Sequence[SpanPrediction], top: int) -> list[Answered]:
    """Return the answer of each passage, and its best spans."""
    answers = []
    for found in predictions:
        best = [Span(each.text, each.start, each.end, each.probability) for each in found.n_best]
        scores = [span.score for span in best if (span.start, span.end) == (found.start, found.end)]
        null = found.null_score if np.isfinite(found.null_score) else None
        score = scores[0] if scores else 0.0
        answers.append(Answered(found.answer, found.start, found.end, score, null, best[:top]))
    return answers


@router.post("/choose")
async def choose(body: ChooseRequest, call: Call) -> TaskResults[ChoicePrediction]:
    """Return the most probable of several continuations of a text."""
    model = await call.model(body)
    task = task_that_predicts(model.engine, body.task, ChoicePrediction)
    inputs = [
        {**each.model_dump(exclude_none=True), "choices": listed(each.choices)}
        for each in listed(body.input)
    ]
    found = await model.predict(task, inputs, body.truncate)
    return TaskResults[ChoicePrediction](**found.about, task=task, results=found.results)


def no_head(engine: Engine, wanted: Sequence[str]) -> NoHead:
    """Return the error that a model has none of the heads that a route reads."""
    has = ", ".join(engine.model.heads) or "the encoder alone"
    return NoHead(f"{engine.name} has no {' or '.join(wanted)} head; it has: {has}", wanted)


def task_that_predicts(engine: Engine, name: str | None, *predictions: type) -> str:
    """Return the task that a request means, among those whose predictions are of some classes."""
    return choose_task(engine, name, kinds_that(lambda kind: kind.prediction in predictions))


def choose_task(engine: Engine, name: str | None, kinds: Sequence[str]) -> str:
    """Return the task of some kinds that a request means, or raise `HttpError`."""
    known = [each for each, task in engine.model.tasks.items() if task.kind in kinds]
    if not known:
        raise no_head(engine, kinds)
    if name is None and len(known) > 1:
        raise invalid_request(f"several tasks; name one as task: {', '.join(known)}", "which_task")
    if name is not None and name not in known:
        raise HttpError(404, "task_not_found", f"no such task; there are: {', '.join(known)}")
    return known[0] if name is None else name
