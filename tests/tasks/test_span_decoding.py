"""From scores to slices: against every slice compared by hand, and back from the gold."""

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
from bertwright.labelled.examples import SpanExample
from bertwright.tasks.instances import Instance
from bertwright.tasks.predictions import Answer, SpanPrediction
from bertwright.tasks.span import best_null_threshold, decide, decode_span, make_span_instances
from bertwright.text.tokenizer.tokenizer import Tokenizer
from tests.tasks.mixed_scripts import TEXTS, TOKENIZERS, UNCASED

Scored = list[tuple[Instance, npt.NDArray[np.float32]]]


def score(task: TaskConfig, example: SpanExample, seed: int = 0) -> Scored:
    """The windows of an example with random scores."""
    rng = np.random.default_rng(seed)
    instances, _ = make_span_instances(task, UNCASED, [example])
    return [(i, rng.normal(size=(len(i.offsets), 2)).astype(np.float32)) for i in instances]


@given(TEXTS, TEXTS, st.sampled_from(TOKENIZERS), st.integers(8, 48), st.data())
def test_gold_scores_give_back_exactly_the_slice(
    question: str, context: str, tokenizer: Tokenizer, max_length: int, data: st.DataObject
) -> None:
    assume(not question.isspace() and not context.isspace())
    stride = data.draw(st.integers(0, max_length // 2))
    task = TaskConfig("span", max_length=max_length, stride=stride, max_answer_tokens=200)
    # Where tokens are is what the windows say of a passage without an answer.
    windows, _ = make_span_instances(task, tokenizer, [SpanExample(question, context, ())])
    chosen = data.draw(st.sampled_from(windows))
    places = [offset for offset in chosen.offsets if offset is not None]
    assume(places)
    first = data.draw(st.integers(0, len(places) - 1))
    last = data.draw(st.integers(first, len(places) - 1))
    start, end = places[first][0], places[last][1]
    example = SpanExample(question, context, ((context[start:end], start),))
    instances, lengths = make_span_instances(task, tokenizer, [example])
    assert lengths.answers_widened == lengths.answers_lost == 0
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
    task = TaskConfig("span", max_length=max_length, stride=4, max_answer_tokens=longest)
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
    task = TaskConfig("span", max_length=10, stride=2, max_answer_tokens=1)
    example = SpanExample("x", "a b c d e f g h i j", ())
    windows = score(task, example)
    instance, scores = windows[0]
    last = len(instance.offsets) - 2  # also in the next window, and there not at the edge
    assert not instance.has_most_context[last]
    scores[last] = 50
    assert decode_span(task, example, windows).score < 50


def test_no_answer_where_null_is_above_the_threshold() -> None:
    example = SpanExample("x", "the cat", ())
    (window,) = score(TaskConfig("span"), example)
    window[1][:] = 0
    window[1][3, 0] = window[1][3, 1] = 1  # "the"
    window[1][0] = 1.5  # [CLS]
    for threshold, answer in [(0.9, ""), (1.0, "the")]:
        task = TaskConfig("span", unanswerable=True, null_threshold=threshold)
        prediction = decode_span(task, example, [window])
        assert prediction.answer == answer
        assert prediction.null_score == 1
        assert prediction.score == (2 if answer else 3)
        assert [a.text for a in prediction.n_best[:2]] == ["", "the"]
        assert prediction.n_best[0].probability == max(a.probability for a in prediction.n_best)
        for other in (0.9, 1.0):
            again = replace(task, null_threshold=other)
            assert decide(prediction, other) == decode_span(again, example, [window])
    always = decode_span(TaskConfig("span", null_threshold=0.5), example, [window], n_best=2)
    assert always.answer == "the"
    assert [a.text for a in always.n_best] == ["the", "the cat"]


def test_the_null_score_is_the_least_of_all_windows() -> None:
    task = TaskConfig("span", max_length=10, stride=2, unanswerable=True)
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
    prediction = decode_span(TaskConfig("span"), example, score(TaskConfig("span"), example))
    assert (prediction.answer, prediction.null_score) == ("", 0)
    assert json.loads(json.dumps(prediction.as_dict(), allow_nan=False))["answer"] == ""


def test_wrong_shapes_are_refused() -> None:
    example = SpanExample("x", "the cat", ())
    ((instance, scores),) = score(TaskConfig("span"), example)
    with pytest.raises(ValueError, match=r"scores \[5, 2\] of a window of 6 tokens"):
        decode_span(TaskConfig("span"), example, [(instance, scores[1:])])
    with pytest.raises(ValueError, match="0 windows"):
        decode_span(TaskConfig("span"), example, [])


def predicted(text: str, null_score: float) -> SpanPrediction:
    """A prediction with one answer, and "" as the answer given."""
    return SpanPrediction("", 0, 0, 0.0, null_score, (Answer(text, 0, len(text), 1.0, 1.0),))


def test_the_best_threshold_parts_right_answers_from_none() -> None:
    examples = [
        SpanExample("q", "the red cat", (("red cat", 4),)),
        SpanExample("q", "the red cat", ()),
        SpanExample("q", "the red cat", (("red", 4),)),
        SpanExample("q", "the red cat"),
    ]
    predictions = [
        predicted("red cat", -2.0),
        predicted("cat", 1.0),
        predicted("red cat", -1.0),
        predicted("cat", 9.0),
    ]
    assert best_null_threshold(examples, predictions) == 0.0
    # "red cat" is not exactly "red", so that nothing is gained by answering the third.
    assert best_null_threshold(examples, predictions, "exact_match") == -1.5
    with pytest.raises(ValueError, match="no example with known answers"):
        best_null_threshold(examples[3:], predictions[3:])
