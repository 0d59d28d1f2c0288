"""Routes of the heads: what the model thinks of a text, a pair, a question.

Where Hugging Face's inference tasks have a shape for an answer, it is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bertwright.config.serve import ServeConfig
from bertwright.errors import DataError
from bertwright.inference.fill import find_blanks
from bertwright.inference.inputs import make_examples
from bertwright.inference.next_sentence import make_pair
from bertwright.serve import schemas as shapes
from bertwright.serve.engine import Engine, Work
from bertwright.serve.errors import Refusal, bad
from bertwright.serve.outputs import Fill, Pairs, Task
from bertwright.serve.requests import (
    Cut,
    Plan,
    Route,
    judge_characters,
    judge_reply,
    judge_texts,
    judge_tokens,
    texts_in,
)
from bertwright.serve.schemas import MODEL, Args, Key, Shape
from bertwright.tasks.predictions import (
    ChoicePrediction,
    NumberPrediction,
    SpanPrediction,
    TaggingPrediction,
    TextPrediction,
)
from bertwright.tasks.task_data import TaskData

TASK = {"task": Key(shapes.NAME, "Name of the task; may be left out where there is one.")}
QUESTIONS = shapes.several(
    shapes.record({"question": shapes.TEXT, "context": shapes.TEXT}, ("question", "context")),
    "questions with contexts",
)
CHOICES = shapes.several(
    shapes.record(
        {"text": shapes.TEXT, "choices": shapes.TEXTS, "text2": shapes.TEXT}, ("text", "choices")
    ),
    "texts with choices",
)
ANSWER = 64
"""Characters of an answer, about, beside its text or label: keys, a number, a token."""


def no_head(engine: Engine, wanted: str) -> Refusal:
    """The model has no head for this."""
    has = ", ".join(engine.model.heads) or "the encoder alone"
    return bad(f"{engine.name} has no {wanted} head; it has: {has}", "no_head")


def task_of(engine: Engine, asked: str | None, kinds: tuple[str, ...]) -> str:
    """The task that is meant.

    Raises:
        Refusal: none of these kinds, several and none named, or no such task.
    """
    known = [name for name, task in engine.model.tasks.items() if task.kind in kinds]
    if not known:
        raise no_head(engine, " or ".join(kinds))
    if asked is None and len(known) > 1:
        raise bad(f"several tasks; name one as task: {', '.join(known)}", "which_task")
    if asked is not None and asked not in known:
        raise Refusal(404, "task_not_found", f"no such task; there are: {', '.join(known)}")
    return known[0] if asked is None else asked


def plan_task(
    engine: Engine, name: str, inputs: Sequence[Any], truncate: bool, config: ServeConfig
) -> tuple[list[Work], list[Cut]]:
    """A work an input of a task.

    Raises:
        Refusal: an input that this kind of task does not take, or too long for its windows; too
            much in all, judged as the inputs come.
    """
    task, reader = engine.model.tasks[name], Task(engine, name)
    pairs = engine.reads_pairs(name)
    works: list[Work] = []
    truncated: list[Cut] = []
    characters = tokens = 0
    for number, given in enumerate(inputs):
        if pairs is not None and pairs != isinstance(given, tuple):
            raise _other_texts(name, number, pairs)
        texts = _texts_read(given)
        characters += sum(map(len, texts))
        judge_characters(characters, config)
        judge_texts(engine, texts, tokens, config)
        try:
            data = TaskData(name, task, engine.tokenizer, make_examples(task, [given]))
        except DataError as error:  # its message may hold the text
            raise bad(f"input {number} is none that a {task.kind} task takes") from error
        lengths = data.lengths
        if lengths.cut:
            if not truncate:
                reason = f'input {number} fits no window of {task.max_length} tokens; "truncate"?'
                raise bad(reason, "too_long")
            truncated.append({"input": number, "tokens_cut": lengths.tokens_cut})
        ids = [each for instance in data.instances for each in instance.ids]
        types = [each for instance in data.instances for each in instance.segments]
        works.append(Work(reader, ids, types if any(map(any, types)) else None, data))
        tokens += works[-1].tokens
        judge_tokens(tokens, config)
    return works, truncated


def _other_texts(name: str, number: int, pairs: bool) -> Refusal:
    """A pair for a head that learned from single texts, or one text where it learned from pairs."""
    if pairs:
        reason = f"input {number} is one text; {name} learned from pairs, as [[text, text2]]"
        return bad(reason, "needs_pair")
    return bad(f"input {number} is a pair; {name} learned from single texts", "no_pairs")


def _texts_read(given: Any) -> list[str]:
    """The texts of a task's input, as often as they are read: those before choices, with each."""
    if isinstance(given, dict) and "choices" in given:
        before = given["text"], given.get("text2") or ""
        return [text for choice in given["choices"] for text in (*before, choice)]
    return list(texts_in(given))


def _task_plan(
    engine: Engine,
    args: Args,
    kinds: tuple[str, ...],
    inputs: Sequence[Any],
    show: Callable[[Any], Any],
    config: ServeConfig,
) -> Plan:
    name = task_of(engine, args["task"], kinds)
    works, truncated = plan_task(engine, name, inputs, args["truncate"], config)
    layers = works[0].reader.layers

    def finish(answers: list[Any]) -> Args:
        return {"task": name, "results": [show(answer) for answer in answers]}

    return Plan(engine, works, finish, layers, truncated=truncated)


def _fill(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    if "masked_lm" not in engine.model.heads:
        raise no_head(engine, "masked_lm")
    reader, top = Fill(engine), min(args["top_k"], len(engine.tokenizer.vocab))
    works: list[Work] = []
    truncated: list[Cut] = []
    tokens = characters = 0
    for number, text in enumerate(args["input"]):
        try:
            blanks = find_blanks(engine.runner, text)
        except DataError as error:
            (mask,) = engine.tokenizer.tokens_of([engine.tokenizer.mask_id])
            raise bad(f"input {number} has no {mask}", "no_mask") from error
        if blanks.tokens > engine.longest:
            if not args["truncate"]:
                raise bad(
                    f"input {number} has {blanks.tokens} tokens; this model reads "
                    f'{engine.longest} at once: ask for "truncate": true and each blank is read in '
                    "what is around it",
                    "too_long",
                )
            cut = blanks.tokens - engine.longest
            truncated.append({"input": number, "tokens_cut": cut})
        tokens += blanks.tokens_read
        judge_tokens(tokens, config)
        characters += sum(map(len, blanks.positions)) * top * (ANSWER + len(text))
        judge_reply(0, characters)
        works.append(Work(reader, blanks.sequences(), None, (blanks, top)))

    def finish(answers: list[Any]) -> Args:
        texts = zip(args["input"], answers, strict=True)
        return {"results": [_filled(engine, text, answer) for text, answer in texts]}

    return Plan(engine, works, finish, (engine.top,), truncated=truncated, characters=characters)


def _filled(engine: Engine, text: str, blanks: list[Any]) -> list[list[Args]]:
    (mask,) = engine.tokenizer.tokens_of([engine.tokenizer.mask_id])
    parts = text.split(mask)
    found = []
    for number, blank in enumerate(blanks):
        before, after = mask.join(parts[: number + 1]), mask.join(parts[number + 1 :])
        found.append(
            [
                {
                    "score": score,
                    "token": engine.tokenizer.vocab[token],
                    "token_str": token,
                    "sequence": f"{before}{token}{after}",
                }
                for token, score in blank
            ]
        )
    return found


def _next(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    if "next_sentence" not in engine.model.heads:
        raise no_head(engine, "next_sentence")
    reader = Pairs(engine)
    works: list[Work] = []
    truncated: list[Cut] = []
    for number, (first, second) in enumerate(args["input"]):
        try:
            pair = make_pair(engine.runner, first, second)
        except DataError as error:
            raise bad("this model reads no pairs", "no_pairs") from error
        if pair.tokens_truncated:
            if not args["truncate"]:
                reason = (
                    f'pair {number} is {pair.tokens_truncated} tokens too long; "truncate": true?'
                )
                raise bad(reason, "too_long")
            truncated.append({"input": number, "tokens_cut": pair.tokens_truncated})
        works.append(Work(reader, [pair.ids], [pair.segments]))

    def finish(answers: list[Any]) -> Args:
        return {"results": [{"probability": answer} for answer in answers]}

    return Plan(engine, works, finish, (engine.top,), truncated=truncated)


def _classify(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    kinds = ("classification", "regression")

    def show(answer: Any) -> list[Args]:
        return _shown_class(answer)[: args["top_k"]]

    plan = _task_plan(engine, args, kinds, args["input"], show, config)
    labels = engine.model.tasks[task_of(engine, args["task"], kinds)].labels
    plan.characters = len(plan.works) * sum(ANSWER + len(label) for label in labels)
    return plan


def _shown_class(answer: Any) -> list[Args]:
    if isinstance(answer, NumberPrediction):
        return [{"label": "value", "score": answer.value}]
    assert isinstance(answer, TextPrediction)
    ordered = sorted(answer.scores.items(), key=lambda item: -item[1])
    return [{"label": label, "score": score} for label, score in ordered]


def _tag(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    return _task_plan(engine, args, ("tagging",), args["input"], _shown_tags, config)


def _shown_tags(answer: TaggingPrediction) -> Args:
    entities = [
        {
            "entity_group": each.label,
            "score": each.score,
            "word": each.text,
            "start": each.start,
            "end": each.end,
        }
        for each in answer.entities
    ]
    return {
        "entities": entities,
        "words": answer.words,
        "tags": answer.tags,
        "scores": answer.scores,
        "offsets": answer.offsets,
    }


def _inputs(args: Args, needed: tuple[str, str], more: tuple[str, ...] = ()) -> list[Args]:
    """The objects of `input`, or the one whose keys stand beside it."""
    one = {name: args[name] for name in (*needed, *more) if args[name] is not None}
    given: list[Args] | None = args["input"]
    if (given is None) == (not one) or (one and not {*needed} <= {*one}):
        raise bad(f"give {' and '.join(needed)}, or input: a list of objects that have both")
    return [one] if given is None else given


def _answer(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    inputs = _inputs(args, ("question", "context"))

    def show(answer: SpanPrediction) -> Args:
        best = [
            {"answer": a.text, "start": a.start, "end": a.end, "score": a.probability}
            for a in answer.n_best
        ]
        own = [a for a in best if (a["start"], a["end"]) == (answer.start, answer.end)]
        return {
            "answer": answer.answer,
            "start": answer.start,
            "end": answer.end,
            "score": own[0]["score"] if own else 0.0,
            "null_score": answer.null_score if np.isfinite(answer.null_score) else None,
            "answers": best[: args["top_k"]],
        }

    plan = _task_plan(engine, args, ("span",), inputs, show, config)
    contexts = sum(len(each["context"]) for each in inputs)
    plan.characters = (1 + args["top_k"]) * contexts
    return plan


def _choose(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    def show(answer: ChoicePrediction) -> Args:
        return {"choice": answer.choice, "scores": answer.scores}

    inputs = _inputs(args, ("text", "choices"), ("text2",))
    return _task_plan(engine, args, ("multiple-choice",), inputs, show, config)


def _texts(kind: shapes.Kind, text: str) -> dict[str, Key]:
    return {"input": Key(kind, text, True, aliases=("inputs",)), **MODEL}


TOP = {"top_k": Key(shapes.number(1, 100), "How many, at most.", default=5)}
ROUTES = (
    Route(
        "/fill-mask",
        Shape({**_texts(shapes.TEXTS, "Texts with [MASK]."), **TOP}, example={"input": "a [MASK]"}),
        _fill,
        "The likeliest tokens of blanks.",
    ),
    Route(
        "/next-sentence",
        Shape(_texts(shapes.PAIRS, "Two texts, or pairs."), example={"input": ["a text", "b"]}),
        _next,
        "Whether one text follows another.",
    ),
    Route(
        "/classify",
        Shape(
            {
                **_texts(shapes.TEXTS_OR_PAIRS, "Texts or pairs, as the head learned."),
                **TASK,
                "top_k": Key(shapes.number(1, 1 << 20), "How many, at most; unset: all."),
            },
            example={"input": "a text"},
        ),
        _classify,
        "Classes of a text, or a number.",
    ),
    Route(
        "/tag",
        Shape(
            {**_texts(shapes.TEXTS_OR_WORDS, "Texts, or lists of words."), **TASK},
            example={"input": "a text"},
        ),
        _tag,
        "Tags of words, and the entities they mark.",
    ),
    Route(
        "/answer",
        Shape(
            {
                "question": Key(shapes.TEXT, "A question."),
                "context": Key(shapes.TEXT, "The passage with the answer."),
                "input": Key(QUESTIONS, "Several.", aliases=("inputs",)),
                **MODEL,
                **TASK,
                "top_k": Key(shapes.number(1, 20), "Runners-up.", default=1),
            },
            example={"question": "what ?", "context": "a text"},
        ),
        _answer,
        "An answer as a slice of a passage.",
    ),
    Route(
        "/choose",
        Shape(
            {
                "text": Key(shapes.TEXT, "A text."),
                "choices": Key(shapes.TEXTS, "Ways to go on."),
                "text2": Key(shapes.TEXT, "What begins every choice."),
                "input": Key(CHOICES, "Several.", aliases=("inputs",)),
                **MODEL,
                **TASK,
            },
            example={"text": "a text", "choices": ["b", "c"]},
        ),
        _choose,
        "The likeliest of several ways to go on.",
    ),
)
