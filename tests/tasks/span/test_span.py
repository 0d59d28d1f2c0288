"""Questions as instances, answers of scores, and the null threshold."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import SpanExample
from bertwright.tasks.instances import Lengths
from bertwright.tasks.predictions import Answer, SpanPrediction
from bertwright.tasks.span.kind import (
    LONGEST_QUESTION,
    SpanInstance,
    SpanKind,
    decide,
    decode_span,
)
from bertwright.tasks.span.options import SpanOptions, SpanTask
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.windows import most_context, split
from tests.tasks.mixed_scripts import TEXTS, TOKENIZERS, UNCASED


def make(
    question: str,
    context: str,
    *answers: tuple[str, int],
    tokenizer: Tokenizer = UNCASED,
    max_length: int = 128,
    stride: int = 4,
) -> tuple[list[SpanInstance], Lengths]:
    """The windows of one example; without answers, an example that has none."""
    task = SpanTask(max_length=max_length, stride=stride)
    return SpanKind().make(task, tokenizer, [SpanExample(question, context, answers)])


def test_a_question_a_passage_and_the_answer() -> None:
    (instance,), lengths = make("cat?", "The cat, running.", ("running", 9))
    tokens = UNCASED.tokens_of(instance.ids[0])
    assert " ".join(tokens) == "[CLS] cat ? [SEP] the cat , run ##ning . [SEP]"
    assert list(instance.segments[0]) == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    assert instance.label == (7, 8)
    assert instance.offsets[:5] == [None, None, None, None, (0, 3)]
    assert instance.offsets[7:] == [(9, 12), (12, 16), (16, 17), None]
    assert list(instance.has_most_context) == [False] * 4 + [True] * 6 + [False]
    assert (lengths.examples, lengths.windows, lengths.in_windows) == (1, 1, 0)
    assert lengths.tokens == [11]


@pytest.mark.parametrize(
    ("context", "answer", "expected"),
    [
        ("中国木", ("国", 1), ["国"]),  # one character of a text without blanks
        ("the cafe\u0301 cat", ("cafe\u0301", 4), ["cafe"]),  # the accent a character of its own
        ("a ❤\ufe0f!", ("❤\ufe0f", 2), ["❤"]),
        ("\uac01 a", ("\uac01", 0), ["\u1100", "##\u1161", "##\u11a8"]),  # pieces of one character
        ("the  cat ", ("the  cat ", 0), ["the", "cat"]),
        ("a 👩\u200d🚀", ("👩\u200d🚀", 2), ["👩", "##🚀"]),
    ],
)
def test_answers_are_found_by_their_characters(
    context: str, answer: tuple[str, int], expected: list[str]
) -> None:
    (instance,), lengths = make("a", context, answer)
    first, last = instance.label
    assert UNCASED.tokens_of(instance.ids[0][first : last + 1]) == expected
    assert lengths.answers_lost == 0
    start, end = instance.offsets[first], instance.offsets[last]
    assert context[start[0] : end[1]] == answer[0].strip()


def test_an_answer_inside_a_token_is_widened() -> None:
    (instance,), _ = make("a", "the running", ("unn", 5))
    assert instance.label == (4, 5)
    assert UNCASED.tokens_of(instance.ids[0][4:6]) == ["run", "##ning"]


@pytest.mark.parametrize("answer", [("\u200b", 4), ("cat", 5), ("cat", -3), ("", 4), ("cat", 99)])
def test_an_answer_that_is_not_there_is_counted(answer: tuple[str, int]) -> None:
    (instance,), lengths = make("a", "the \u200b cat", answer)
    assert instance.label == (0, 0)
    assert lengths.answers_lost == lengths.as_dict()["answers_lost"] == 1


def test_which_answer_is_learned() -> None:
    """The first that is where it should be; none and unknown ones are told apart."""
    (instance,), lengths = make("a", "the cat a", ("cat", 5), ("cat", 4), ("a", 8))
    assert (instance.label, lengths.answers_lost) == ((4, 4), 0)
    (instance,), _ = make("a", "the cat")
    assert instance.label == (0, 0)
    (instance,), _ = SpanKind().make(SpanTask(), UNCASED, [SpanExample("a", "the cat")])
    assert instance.label is None


@pytest.mark.parametrize("first", [3, 4, 5])  # the last begins in one window, ends in the next
def test_windows_share_tokens_and_label_what_they_hold_whole(first: int) -> None:
    context = " ".join("abcdefghij")
    answer = context[2 * first : 2 * first + 3], 2 * first
    instances, lengths = make("x", context, answer, max_length=10, stride=2)
    passages = [UNCASED.tokens_of(instance.ids[0])[3:-1] for instance in instances]
    bounds = split(10, 6, 2)
    assert passages == [list("abcdefghij"[a:b]) for a, b in bounds]
    for (start, stop), instance in zip(bounds, instances, strict=True):
        held = start <= first and stop > first + 1
        place = first - start + 3
        assert instance.label == ((place, place + 1) if held else (0, 0))
    assert any(instance.label != (0, 0) for instance in instances)
    assert (lengths.windows, lengths.in_windows) == (len(bounds), 1)
    assert len(bounds) > 1


def test_a_long_question_is_cut_and_counted() -> None:
    (instance,), lengths = make("a " * 70, "the cat", max_length=200)
    assert list(instance.ids[0]).index(UNCASED.special_id("sep")) == 1 + LONGEST_QUESTION
    assert (lengths.cut, lengths.tokens_cut, lengths.tokens) == (1, 6, [75])
    instances, lengths = make("a " * 70, "the cat", max_length=8)
    assert [len(instance.ids[0]) for instance in instances] == [7]  # half of the five for it
    assert lengths.tokens_cut == 68


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (SpanExample(" ", "the cat", (), line=3), "line 3.*question"),
        (SpanExample("a", "", (), line=4), "line 4.*context"),
    ],
)
def test_bad_examples_are_named(example: SpanExample, message: str) -> None:
    with pytest.raises(DataError, match=message):
        SpanKind().make(SpanTask(), UNCASED, [example])


@given(TEXTS, TEXTS, st.sampled_from(TOKENIZERS), st.integers(8, 40), st.data())
def test_every_token_is_read_and_judged_once(
    question: str, context: str, tokenizer: Tokenizer, max_length: int, data: st.DataObject
) -> None:
    assume(not question.isspace() and not context.isspace())
    stride = data.draw(st.integers(0, max_length // 2))
    instances, _ = make(
        question, context, tokenizer=tokenizer, max_length=max_length, stride=stride
    )
    whole = tokenizer.encode(context).ids[1:-1]
    head = list(instances[0].segments[0]).index(1)
    bounds = split(len(whole), max_length - head - 1, stride)
    judged: list[int] = []
    for number, ((start, stop), instance) in enumerate(zip(bounds, instances, strict=True)):
        size = stop - start + head + 1
        assert size <= max_length
        assert list(instance.ids[0])[head:-1] == whole[start:stop]
        assert size == len(instance.ids[0]) == len(instance.segments[0]) == len(instance.offsets)
        assert [offset is None for offset in instance.offsets] == [
            *[True] * head,
            *[False] * (stop - start),
            True,
        ]
        own = [p for p in range(start, stop) if instance.has_most_context[p - start + head]]
        assert all(most_context(bounds, place) == number for place in own)
        assert sum(instance.has_most_context) == len(own)
        judged += own
    assert sorted(judged) == list(range(len(whole)))


Scored = list[tuple[SpanInstance, npt.NDArray[np.float32]]]


def score(task: TaskConfig, example: SpanExample, seed: int = 0) -> Scored:
    """The windows of an example with random scores."""
    rng = np.random.default_rng(seed)
    instances, _ = SpanKind().make(task, UNCASED, [example])
    return [(i, rng.normal(size=(len(i.offsets), 2)).astype(np.float32)) for i in instances]


@given(TEXTS, TEXTS, st.sampled_from(TOKENIZERS), st.integers(8, 48), st.data())
def test_gold_scores_give_back_exactly_the_slice(
    question: str, context: str, tokenizer: Tokenizer, max_length: int, data: st.DataObject
) -> None:
    assume(not question.isspace() and not context.isspace())
    stride = data.draw(st.integers(0, max_length // 2))
    task = SpanTask(
        max_length=max_length, stride=stride, options=SpanOptions(max_answer_tokens=200)
    )
    # Where tokens are is what the windows say of a passage without an answer.
    windows, _ = SpanKind().make(task, tokenizer, [SpanExample(question, context, ())])
    chosen = data.draw(st.sampled_from(windows))
    places = [offset for offset in chosen.offsets if offset is not None]
    assume(places)
    first = data.draw(st.integers(0, len(places) - 1))
    last = data.draw(st.integers(first, len(places) - 1))
    start, end = places[first][0], places[last][1]
    example = SpanExample(question, context, ((context[start:end], start),))
    instances, lengths = SpanKind().make(task, tokenizer, [example])
    assert lengths.answers_lost == 0
    scored: Scored = []
    for instance in instances:
        scores = np.zeros((len(instance.offsets), 2), np.float32)
        if instance.label != (0, 0):
            scores[instance.label[0], 0] = scores[instance.label[1], 1] = 5
        scored.append((instance, scores))
    # Pieces of one character can reach over the window's edge; then no window holds all of it.
    assume(any(instance.label != (0, 0) for instance, _ in scored))
    prediction = decode_span(task, example, scored)
    assert (prediction.answer, prediction.start, prediction.end) == (context[start:end], start, end)
    assert prediction.score == 10


@pytest.mark.parametrize("max_length", [10, 14, 128])
@pytest.mark.parametrize("longest", [1, 3, 100])
def test_the_n_best_are_those_of_all_slices(max_length: int, longest: int) -> None:
    context = " ".join("abcdefghijklmnopqr")
    task = SpanTask(max_length=max_length, stride=4, options=SpanOptions(max_answer_tokens=longest))
    example = SpanExample("x", context, ())
    windows = score(task, example)
    expected: dict[tuple[int, int], float] = {}
    for instance, scores in windows:
        for i, start in enumerate(instance.offsets):
            for j, end in enumerate(instance.offsets[i : i + longest], i):
                if start and end and any(instance.has_most_context[i : j + 1]):
                    value = float(scores[i, 0]) + float(scores[j, 1])
                    key = start[0], end[1]
                    expected[key] = max(value, expected.get(key, -math.inf))
    ranked = sorted(expected.items(), key=lambda item: -item[1])[:7]
    prediction = decode_span(task, example, windows, n_best=7)
    assert [(a.start, a.end) for a in prediction.n_best] == [key for key, _ in ranked]
    assert [a.score for a in prediction.n_best] == pytest.approx([value for _, value in ranked])
    assert all(a.text == context[a.start : a.end] for a in prediction.n_best)
    assert sum(a.probability for a in prediction.n_best) == pytest.approx(1)
    assert (prediction.answer, prediction.score) == (
        prediction.n_best[0].text,
        prediction.n_best[0].score,
    )
    null = min(float(scores[0].sum()) for _, scores in windows)
    assert prediction.null_score == pytest.approx(null - prediction.score)


def test_a_score_where_others_have_more_context_does_not_count() -> None:
    task = SpanTask(max_length=10, stride=2, options=SpanOptions(max_answer_tokens=1))
    example = SpanExample("x", "a b c d e f g h i j", ())
    windows = score(task, example)
    instance, scores = windows[0]
    last = len(instance.offsets) - 2  # also in the next window, and there not at the edge
    assert not instance.has_most_context[last]
    scores[last] = 50
    assert decode_span(task, example, windows).score < 50


def test_no_answer_where_null_is_above_the_threshold() -> None:
    example = SpanExample("x", "the cat", ())
    (window,) = score(SpanTask(), example)
    window[1][:] = 0
    window[1][3, 0] = window[1][3, 1] = 1  # "the"
    window[1][0] = 1.5  # [CLS]
    for threshold, answer in [(0.9, ""), (1.0, "the")]:
        task = SpanTask(unanswerable=True, null_threshold=threshold)
        prediction = decode_span(task, example, [window])
        assert prediction.answer == answer
        assert prediction.null_score == 1
        assert prediction.score == (2 if answer else 3)
        assert [a.text for a in prediction.n_best[:2]] == ["", "the"]
        assert prediction.n_best[0].probability == max(a.probability for a in prediction.n_best)
        for other in (0.9, 1.0):
            again = replace(task, null_threshold=other)
            assert decide(prediction, other) == decode_span(again, example, [window])
    always = decode_span(SpanTask(null_threshold=0.5), example, [window], n_best=2)
    assert always.answer == "the"
    assert [a.text for a in always.n_best] == ["the", "the cat"]


def test_the_null_score_is_the_least_of_all_windows() -> None:
    task = SpanTask(max_length=10, stride=2, unanswerable=True)
    example = SpanExample("x", "a b c d e f g h i j", ())
    windows = score(task, example)
    windows[0][1][0] = 40
    assert decode_span(task, example, windows).answer
    for _, scores in windows:
        scores[0] = 40
    prediction = decode_span(task, example, windows, n_best=1)
    assert (prediction.answer, prediction.score) == ("", 80)
    assert len(prediction.n_best) == 2
    assert prediction.n_best[1].text


def test_a_passage_without_tokens_has_no_answer() -> None:
    example = SpanExample("x", "\u200b", ())
    prediction = decode_span(SpanTask(), example, score(SpanTask(), example))
    assert (prediction.answer, prediction.null_score) == ("", 0)
    assert json.loads(json.dumps(prediction.as_dict(), allow_nan=False))["answer"] == ""


def test_the_best_threshold_parts_right_answers_from_none() -> None:
    examples = [
        SpanExample("q", "the red cat", (("red cat", 4),)),
        SpanExample("q", "the red cat", ()),
        SpanExample("q", "the red cat", (("red", 4),)),
    ]
    given = [("red cat", -2.0), ("cat", 1.0), ("red cat", -1.0)]
    # one answer each, and "" as the answer given
    predictions = [
        SpanPrediction("", 0, 0, 0.0, null, (Answer(text, 0, len(text), 1.0, 1.0),))
        for text, null in given
    ]
    task = SpanTask(unanswerable=True)
    tuned, decided = SpanKind().tune(task, examples, predictions, None)
    assert tuned.null_threshold == 0.0
    assert [each.answer for each in decided] == ["red cat", "", "red cat"]
    # "red cat" is not exactly "red", so that nothing is gained by answering the third.
    tuned, _ = SpanKind().tune(task, examples, predictions, "exact_match")
    assert tuned.null_threshold == -1.5
