"""Extractive answers: instances, scores as slices of a passage, and their metrics.

**Instances.** Devlin et al. 2019, section 4.2: [CLS] question [SEP] passage [SEP]; a passage longer
than a window is read in several (`text/windows.py`). A question keeps 64 tokens, as in
google-research/bert `run_squad.py`, and never more than half of a window. Where an answer is comes
from character offsets alone, so that no normalization, script or space between words matters: it is
all tokens that share a character with it. A window that does not hold all of the answer has the
label (0, 0), its first token: no answer here.

**Decoding.** As in `run_squad.py`, the score of a slice is that of its first token as a start plus
that of its last as an end; no answer scores what [CLS] does, and of several windows the least. With
S the best slice's score, no answer is predicted where null - S exceeds a threshold tuned on dev.
Two things differ. The script looks at pairs of the 20 best starts and ends; here all slices of at
most `max_answer_tokens` are compared. The script takes a slice in the window where its first token
has most context, and loses it if that window ends inside it; here a slice counts in every window
in which one of its tokens has most context, so that none is lost that any window holds whole.

Letters: T tokens of a window, P of them of the passage, A tokens of an answer at most.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast
from unicodedata import category

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from bertwright.arrays import Int64s
from bertwright.config.task import TaskConfig
from bertwright.labelled.examples import Example, SpanExample
from bertwright.tasks.instances import Instance, Lengths, check_text, segments_of, whole_length
from bertwright.tasks.metrics import Metrics
from bertwright.tasks.predictions import Answer, Prediction, SpanPrediction
from bertwright.tasks.span_metrics import Rules, best_threshold, rules_for, score_answers
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.windows import Span, most_context, split

LONGEST_QUESTION = 64
"""Tokens of a question that are read (`max_query_length` of `run_squad.py`)."""


@dataclass(frozen=True)
class _Passage:
    ids: array[int]
    offsets: list[Span]
    starts: Int64s  # [P]
    stops: Int64s  # [P]


def make_span_instances(
    task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[Example]
) -> tuple[list[Instance], Lengths]:
    """One instance a window; those of an example stand together, in the passage's order. The first
    answer that is where it says is the label. An empty question or passage is a `DataError`."""
    chosen = cast(Sequence[SpanExample], examples)
    framing = tokenizer.framing
    room = task.max_length - framing.special_tokens(paired=True)
    longest = min(LONGEST_QUESTION, room // 2)
    passages: dict[str, _Passage] = {}
    instances: list[Instance] = []
    lengths = Lengths()
    for number, example in enumerate(chosen):
        check_text(example.question, "question", example, number)
        check_text(example.context, "context", example, number)
        passage = passages.get(example.context)
        if passage is None:
            passage = passages[example.context] = _passage(tokenizer, example.context)
        (whole,) = tokenizer.encode_bare_ids([example.question])
        question = whole[:longest]
        answer = _answer(example, passage, lengths)
        spans = split(len(passage.ids), room - len(question), task.stride)
        best = most_context(spans, np.arange(len(passage.ids)))
        for window, (start, stop) in enumerate(spans):
            ids = array("i", framing.two(question, passage.ids[start:stop]))
            _, inside = framing.inside(len(question), stop - start)
            before, after = inside.start, len(ids) - inside.stop
            own = np.pad(best[start:stop] == window, (before, after))
            instances.append(
                Instance(
                    number,
                    (ids,),
                    (segments_of(framing, len(question), stop - start),),
                    _label(answer, start, stop, before),
                    offsets=[*[None] * before, *passage.offsets[start:stop], *[None] * after],
                    has_most_context=own,
                )
            )
        lost = max(0, len(whole) - longest)
        lengths.add(whole_length(framing, whole, passage.ids), len(spans), lost)
    return instances, lengths


def _passage(tokenizer: Tokenizer, context: str) -> _Passage:
    encoding = tokenizer.encode(context)
    (inside,) = tokenizer.framing.inside(len(encoding.ids) - tokenizer.framing.special_tokens())
    offsets = _with_marks(context, encoding.offsets[inside])
    ends = np.array(offsets, np.int64).reshape(-1, 2)
    return _Passage(array("i", encoding.ids[inside]), offsets, ends[:, 0], ends[:, 1])


def _with_marks(context: str, offsets: list[Span]) -> list[Span]:
    """Offsets that hold the combining marks behind a token, which the uncased rules drop.

    Without them the answer "café", its accent a character of its own, would lose it.
    """
    if context.isascii():
        return offsets
    starts = {start for start, _ in offsets}
    widened = []
    for start, stop in offsets:
        while (
            stop < len(context) and stop not in starts and category(context[stop]).startswith("M")
        ):
            stop += 1
        widened.append((start, stop))
    return widened


def _answer(example: SpanExample, passage: _Passage, lengths: Lengths) -> Span | None:
    """First and last token of the answer; (-1, -1) for none; None where it is not known.

    It is the first that is where it should be. It is lost if none is, or if the tokenizer keeps
    nothing of it.
    """
    if example.answers is None:
        return None
    if not example.answers:
        return -1, -1
    there = (
        (start, start + len(text))
        for text, start in example.answers
        if text and start >= 0 and example.context.startswith(text, start)
    )
    start, stop = next(there, (0, 0))
    first = int(np.searchsorted(passage.stops, start, "right"))
    last = int(np.searchsorted(passage.starts, stop, "left")) - 1
    if first > last:
        lengths.answers_lost += 1
        return -1, -1
    return first, last


def _label(answer: Span | None, start: int, stop: int, shift: int) -> Span | None:
    """First and last token of the answer in the window from `start` to `stop`; the passage begins
    at token `shift` of it."""
    if answer is None or not (start <= answer[0] and answer[1] < stop):
        return None if answer is None else (0, 0)
    return answer[0] - start + shift, answer[1] - start + shift


Scores = npt.NDArray[np.floating[Any]]


def decode_span(
    task: TaskConfig,
    example: SpanExample,
    windows: Sequence[tuple[Instance, Scores]],
    n_best: int = 20,
) -> SpanPrediction:
    """The best answer, an exact slice of the passage, "" where there is none, and the `n_best` of
    all windows, each with scores [T, 2] of starts and ends; if the task allows it, no answer stands
    among them."""
    best: dict[tuple[int, int], float] = {}  # by characters: tokens may be of the same ones
    null = math.inf
    for instance, scores in windows:
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
    powers = np.exp(np.array([score for score, _, _ in found]) - max(each[0] for each in found))
    probabilities: list[float] = (powers / powers.sum()).tolist()
    answers = tuple(
        Answer(example.context[start:stop], start, stop, score, probability)
        for (score, start, stop), probability in zip(found, probabilities, strict=True)
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
    examples: Sequence[Any], predictions: Sequence[Any], metric: Literal["f1", "exact_match"] = "f1"
) -> tuple[list[Prediction], float]:
    """The same answers to questions under the `null_threshold` with which they score best, whatever
    they were made with, and it."""
    accepted = [[text for text, _ in example.answers] for example in examples]
    _, threshold = _best_thresholds(predictions, accepted, rules_for(accepted, True))[metric]
    return [decide(prediction, threshold) for prediction in predictions], threshold


def _best_thresholds(
    predictions: Sequence[SpanPrediction], accepted: Sequence[Sequence[str]], rules: Rules
) -> dict[str, tuple[float, float]]:
    """By metric: the best score that any null threshold reaches, and the threshold."""
    texts = [next((a.text for a in p.n_best if a.text), p.answer) for p in predictions]
    scores = score_answers(texts, accepted, rules)
    answered = np.array([float(bool(text)) for text in texts])
    null = np.array([p.null_score for p in predictions], np.float64)
    return {
        name: best_threshold(column, scores.has_answer, answered, null)
        for name, column in (("exact_match", scores.exact), ("f1", scores.f1))
    }


def _slices(
    instance: Instance, scores: Scores, longest: int, count: int
) -> Iterator[tuple[float, int, int]]:
    """The best slices of a window: score, first character, one after the last."""
    inside = [at for at, offset in enumerate(instance.offsets) if offset is not None]
    if not inside:
        return
    first, size = inside[0], len(inside)
    longest = min(longest, size)
    starts, ends = scores[first : first + size].astype(np.float64).T  # [P] each
    # table[i, j]: from token i to token i + j.
    table = starts[:, None] + sliding_window_view(_padded(ends, longest - 1, -np.inf), longest)
    counted = np.concatenate([[0], np.cumsum(instance.has_most_context[first : first + size])])
    until = sliding_window_view(_padded(counted[1:], longest - 1, counted[-1]), longest)
    flat = np.where(until > counted[:-1, None], table, -np.inf).ravel()  # [P A]
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


def span_metrics(
    task: TaskConfig, examples: Sequence[SpanExample], predictions: Sequence[SpanPrediction]
) -> Metrics:
    """A slice of a passage, or none."""
    gold = [[text for text, _ in e.answers or ()] for e in examples]
    rules = rules_for(gold, bool(task.unanswerable))
    scores = score_answers([p.answer for p in predictions], gold, rules)
    wrong = {
        row: (predictions[row].n_best[0].probability if predictions[row].n_best else 0.0)
        for row in np.flatnonzero(scores.f1 == 0).tolist()
    }
    found = Metrics(
        main="f1",
        statistic=scores.statistic,
        errors=wrong,
        describe=lambda row: (gold[row][0] if gold[row] else "", predictions[row].answer),
        rules=rules,
    )
    if scores.has_answer.any() and not any(p.answer for p in predictions):
        found.degenerate = f"predicts no answer for all {len(predictions)} questions"
    if task.unanswerable and any(p.n_best for p in predictions):
        for name, reached in _best_thresholds(predictions, gold, rules).items():
            found.best[f"best_{name}"], found.tuned[f"best_{name}_threshold"] = reached
    return found
