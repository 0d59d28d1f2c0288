"""Scores of tokens as answers: the best slices of a passage, over all its windows.

google-research/bert `run_squad.py`: the score of a slice is that of its first token as a start plus
that of its last as an end; no answer scores what [CLS] does, and of several windows the least. With
S the best slice's score, no answer is given where null - S exceeds a threshold tuned on dev.

Two things differ. The script looks at pairs of the 20 best starts and ends; here all slices of at
most `max_answer_tokens` are compared. The script takes a slice in the window where its first token
has most context, and loses it if that window ends inside it; here a slice counts in every window
in which one of its tokens has most context, so that none is lost that any window holds whole.

Letters: T tokens of a window, P of them of the passage, A tokens of an answer at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from bertwright.config.task import TaskConfig
from bertwright.labelled.examples import SpanExample
from bertwright.tasks.instances import Instance
from bertwright.tasks.predictions import Answer, SpanPrediction
from bertwright.tasks.span_metrics import best_threshold, rules_for, score_answers

Scores = npt.NDArray[np.floating[Any]]


def decode_span(
    task: TaskConfig,
    example: SpanExample,
    windows: Sequence[tuple[Instance, Scores]],
    n_best: int = 20,
) -> SpanPrediction:
    """The answer to a question.

    Args:
        task: a span task.
        example: the question and its passage.
        windows: all windows of the example, each with scores [T, 2] of starts and ends.
        n_best: how many slices to keep; if the task allows it, no answer stands among them.

    Returns:
        The best answer, an exact slice of the passage; "" where there is none.

    Raises:
        ValueError: no windows, scores of another shape, or `n_best` below 1.
    """
    if not windows or n_best < 1:
        raise ValueError(f"{len(windows)} windows, n_best {n_best}; expected 1 or more of both")
    best: dict[tuple[int, int], float] = {}  # by characters: pieces may be of the same ones
    null = math.inf
    for instance, scores in windows:
        if scores.shape != (len(instance.offsets), 2):
            raise ValueError(
                f"scores {list(scores.shape)} of a window of {len(instance.offsets)} tokens; "
                f"expected {[len(instance.offsets), 2]}"
            )
        null = min(null, float(scores[0, 0]) + float(scores[0, 1]))
        for score, start, stop in _slices(instance, scores, task.max_answer_tokens, n_best):
            best[start, stop] = max(score, best.get((start, stop), -math.inf))
    found = [(score, start, stop) for (start, stop), score in best.items()]
    found.sort(key=lambda one: (-one[0], *one[1:]))
    # A passage without tokens has no answer; 0 keeps the JSON finite.
    null_score = null - found[0][0] if found else 0.0
    if task.unanswerable or not found:
        found = sorted([*found[:n_best], (null, 0, 0)], key=lambda one: -one[0])
    else:
        found = found[:n_best]
    shares = _softmax([score for score, _, _ in found])
    answers = tuple(
        Answer(example.context[start:stop], start, stop, score, share)
        for (score, start, stop), share in zip(found, shares, strict=True)
    )
    threshold = task.null_threshold if task.unanswerable else math.inf
    return decide(SpanPrediction("", 0, 0, null, null_score, answers), threshold)


def decide(prediction: SpanPrediction, null_threshold: float) -> SpanPrediction:
    """The same prediction under another threshold: its best slice, or no answer."""
    given = next((answer for answer in prediction.n_best if answer.text), None)
    if given is None or prediction.null_score > null_threshold:
        null = next((a.score for a in prediction.n_best if not a.text), prediction.score)
        return replace(prediction, answer="", start=0, end=0, score=null)
    return replace(
        prediction, answer=given.text, start=given.start, end=given.end, score=given.score
    )


def decide_best(
    examples: Sequence[SpanExample],
    predictions: Sequence[SpanPrediction],
    metric: Literal["f1", "exact_match"] = "f1",
) -> tuple[list[SpanPrediction], float]:
    """The same predictions under `best_null_threshold`, and the threshold."""
    threshold = best_null_threshold(examples, predictions, metric)
    return [decide(prediction, threshold) for prediction in predictions], threshold


def best_null_threshold(
    examples: Sequence[SpanExample],
    predictions: Sequence[SpanPrediction],
    metric: Literal["f1", "exact_match"] = "f1",
) -> float:
    """The `null_threshold` with which these predictions would have scored best.

    Args:
        examples: questions with their answers; those not known are left out.
        predictions: what a model says of each; the threshold it said it with does not matter.
        metric: what is best.

    Raises:
        ValueError: no example has known answers.
    """
    known = [
        ([text for text, _ in example.answers], prediction)
        for example, prediction in zip(examples, predictions, strict=True)
        if example.answers is not None
    ]
    if not known:
        raise ValueError("no example with known answers: there is no threshold to choose")
    accepted = [answers for answers, _ in known]
    texts = [
        next((answer.text for answer in prediction.n_best if answer.text), "")
        for _, prediction in known
    ]
    scores = score_answers(texts, accepted, rules_for(accepted, True))
    _, threshold = best_threshold(
        scores.f1 if metric == "f1" else scores.exact,
        scores.has_answer,
        np.array([float(bool(text)) for text in texts]),
        np.array([prediction.null_score for _, prediction in known]),
    )
    return threshold


def _slices(
    instance: Instance, scores: Scores, longest: int, count: int
) -> Iterator[tuple[float, int, int]]:
    """The best slices of a window: score, first character, one after the last."""
    places = [at for at, offset in enumerate(instance.offsets) if offset is not None]
    if not places:
        return
    first, size = places[0], len(places)
    longest = min(longest, size)
    starts, ends = scores[first : first + size].astype(np.float64).T  # [P] each
    # table[i, j]: from token i to token i + j.
    table = starts[:, None] + sliding_window_view(_padded(ends, longest - 1, -np.inf), longest)
    judged = np.concatenate([[0], np.cumsum(instance.has_most_context[first : first + size])])
    until = sliding_window_view(_padded(judged[1:], longest - 1, judged[-1]), longest)
    flat = np.where(until > judged[:-1, None], table, -np.inf).ravel()  # [P A]
    count = min(count, flat.size)
    for at in np.argpartition(flat, -count)[-count:].tolist():
        if flat[at] > -np.inf:
            start, stop = instance.offsets[first + at // longest], at // longest + at % longest
            end = instance.offsets[first + stop]
            assert start is not None
            assert end is not None
            yield float(flat[at]), start[0], end[1]


def _padded(values: npt.NDArray[Any], more: int, value: float) -> npt.NDArray[Any]:
    return np.concatenate([values, np.full(more, value)])


def _softmax(scores: Sequence[float]) -> list[float]:
    """Probabilities among the n best."""
    powers = np.exp(np.array(scores) - max(scores))
    shares: list[float] = (powers / powers.sum()).tolist()
    return shares
