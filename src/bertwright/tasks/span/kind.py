"""Extractive question answering: the answer is a slice of a passage.

**Instances.** A sequence is [CLS] question [SEP] passage [SEP] (Devlin et al. 2019, section 4.2). A
passage longer than a window is read in several windows (`text/windows.py`). A question is truncated
to 64 tokens, as in google-research/bert `run_squad.py`, and never takes more than half of a window.
The tokens of an answer are all tokens that share a character with it, by character offsets, so that
normalization, script and white space do not matter. A window that does not hold the whole answer
has the label (0, 0), its first token, which means no answer.

**Head.** One linear layer without dropout gives each token a start score and an end score, as in
`BertForQuestionAnswering` of transformers (sections 4.2 and 4.3). Each is a softmax over the tokens
of the window, and the loss of a window is the mean of the two cross-entropies. No answer is the
span of [CLS]. One thing differs: in transformers, padding takes part of the probability; here there
is no padding.

**Predictions.** As in `run_squad.py`, the score of a slice is the start score of its first token
plus the end score of its last token. The score of no answer is that of [CLS], the lowest of all
windows. No answer is predicted if its score exceeds that of the best slice by more than a
threshold, which is tuned on dev. Two things differ from the script:

- The script compares pairs of the 20 best starts and ends; here all slices of at most
  `max_answer_tokens` are compared.
- The script uses a slice only from the window where its first token has the most context, and loses
  it if that window ends inside it. Here a slice counts in every window in which one of its tokens
  has the most context, so that no slice is lost that any window holds whole.

**Metrics.** Exact match and F1 of answers, as the evaluation scripts of SQuAD 1.1, SQuAD 2.0 and
CMRC 2018 compute them.

- SQuAD 1.1 (Rajpurkar et al., EMNLP 2016, section 6.1): answers are lower-cased, and ASCII
  punctuation, the articles "a", "an", "the" and double spaces are removed. F1 compares bags of
  words. An example's score is its best over the accepted answers.
- SQuAD 2.0 (Rajpurkar, Jia and Liang, ACL 2018): a question may have no answer; the correct
  prediction is then "", and F1 is 1 or 0. Accepted answers that consist only of articles and
  punctuation are ignored; if all do, the question has no answer.
- CMRC 2018 (Cui et al., EMNLP 2019; Chinese): a list of punctuation marks is removed (half-width
  and full-width; the ASCII full stop and comma stay). F1 compares the longest common substring of
  characters and words, where each Chinese character is a word. The script splits other text with
  NLTK; here a rule splits it into words, numbers with their "." and ",", and marks.
- Other scripts without blanks between words (Japanese, Thai, Lao, Khmer, Burmese, Tibetan) have no
  published evaluation script: an answer is normalized as in SQuAD, and its words are those of
  `text/scripts.py`, each character with its combining marks.

Letters: B windows, N tokens in all, T tokens of a window, P of them of the passage, A tokens of the
longest allowed answer, E examples, H hidden.
"""

from __future__ import annotations

import json
import math
import re
import string
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from unicodedata import category

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from bertwright.arrays import Bools, Float32s, Float64s, Int64s
from bertwright.errors import DataError, listed
from bertwright.labelled.examples import SpanExample, is_mostly_chinese
from bertwright.labelled.file import Read
from bertwright.labelled.squad import ANSWERS
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.objective import Loss
from bertwright.nn.ragged import log_softmax, merge
from bertwright.rows.lines import ByteCounts, read_lines
from bertwright.rows.open import open_bytes
from bertwright.tasks.batch import TaskBatch, windows_of
from bertwright.tasks.head import Head, Scorer, make_before_scores, make_parts
from bertwright.tasks.instances import Instance, Lengths, check_text, segments_of, whole_length
from bertwright.tasks.kind import (
    Kind,
    Scored,
    ScoreGraph,
    one_window,
)
from bertwright.tasks.metrics import Metrics, Statistic, of_sums, ratio
from bertwright.tasks.predictions import Answer, SpanPrediction
from bertwright.tasks.span.options import SpanOptions, SpanTask
from bertwright.text.scripts import without_blanks, words_of
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.windows import Span, most_context, split

LONGEST_QUESTION = 64
"""The most tokens of a question that are read (`max_query_length` of `run_squad.py`)."""


@dataclass(frozen=True)
class SpanInstance(Instance):
    """One window of a question and its passage."""

    label: Span | None = None
    """The first and last token of the answer in the window; (0, 0) if it is not in the window."""
    offsets: Sequence[Span | None] = ()
    """The characters of the passage for each token of the window; None for other tokens."""
    has_most_context: Sequence[bool] | Bools = ()
    """Whether each token has more context in this window than in any other."""


@dataclass(frozen=True)
class SpanBatch(TaskBatch):
    """A batch of windows, each of which is scored by itself. `rows` has the instances of all
    windows, in their order.
    """

    labels: Tensor | None = None
    """[B, 2] int64: the first and last token of the answer in each window."""


@dataclass(frozen=True)
class _Passage:
    ids: array[int]
    offsets: list[Span]
    starts: Int64s  # [P]
    stops: Int64s  # [P]


def _passage(tokenizer: Tokenizer, context: str) -> _Passage:
    encoding = tokenizer.encode(context)
    (inside,) = tokenizer.framing.inside(len(encoding.ids) - tokenizer.framing.special_tokens())
    offsets = _with_marks(context, encoding.offsets[inside])
    ends = np.array(offsets, np.int64).reshape(-1, 2)
    return _Passage(array("i", encoding.ids[inside]), offsets, ends[:, 0], ends[:, 1])


def _with_marks(context: str, offsets: list[Span]) -> list[Span]:
    """Return offsets widened to include combining marks after a token, which uncased models drop.

    Otherwise the answer "café", if its accent is a separate character, would lose the accent.
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
    """Return the first and last token of the answer; (-1, -1) if there is none; None if not known.

    It is the first accepted answer that is found at its start offset. If none is, or if the
    tokenizer removes all of it, it is counted as lost.
    """
    if example.answers is None:
        return None
    if not example.answers:
        return -1, -1
    located = (
        (start, start + len(text))
        for text, start in example.answers
        if text and start >= 0 and example.context.startswith(text, start)
    )
    start, stop = next(located, (0, 0))
    first = int(np.searchsorted(passage.stops, start, "right"))
    last = int(np.searchsorted(passage.starts, stop, "left")) - 1
    if first > last:
        lengths.answers_lost += 1
        return -1, -1
    return first, last


def _label(answer: Span | None, start: int, stop: int, shift: int) -> Span | None:
    """Return the first and last token of the answer within the window from `start` to `stop`, in
    which the passage begins at token `shift`.
    """
    if answer is None or not (start <= answer[0] and answer[1] < stop):
        return None if answer is None else (0, 0)
    return answer[0] - start + shift, answer[1] - start + shift


Scores = npt.NDArray[np.floating[Any]]


class SpanHead(Head[SpanBatch]):
    """Head that scores each token as the start and the end of the answer."""

    def __init__(self, spec: EncoderSpec, task: SpanTask) -> None:
        """Build the head. The task's `dropout` is not used."""
        super().__init__()
        self.mix, self.network, width, self.layers = make_parts(task.head, spec.widths)
        self.before_scores = make_before_scores(task.head, spec)
        self.qa_outputs = Scorer(width, 2)

    @property
    def scorer(self) -> Scorer:
        """The linear layer that computes the scores."""
        return self.qa_outputs

    def count(self, batch: SpanBatch) -> int:
        """Return B, the number of windows in a batch."""
        return batch.inputs.sequences.count

    def scores(self, encoded: Encoded, batch: SpanBatch) -> Tensor:
        """Return the start and end score of each token, `[N, 2]` float32."""
        x = self.features(encoded)
        if self.network is not None:
            x = self.network(x, batch.inputs.sequences.lengths)
        scores: Tensor = self.qa_outputs(x)
        return scores

    def forward(self, encoded: Encoded, batch: SpanBatch) -> Loss:
        """Return the loss summed over the windows of a batch. A window is correct if both ends
        are.
        """
        assert batch.labels is not None
        windows = batch.inputs.sequences
        scores = self.scores(encoded, batch)
        gold = windows.first[:, None] + batch.labels  # [B, 2]: positions in N
        logs = log_softmax(scores, windows.index, windows.count).gather(0, gold)  # [B, 2]
        best = merge(scores.detach(), windows.index, windows.count, "max")
        correct = (scores.detach().gather(0, gold) >= best).all(1).sum()
        return Loss(-logs.mean(1).sum(), windows.count, correct)


def decode_span(
    task: SpanTask,
    example: SpanExample,
    windows: Sequence[tuple[SpanInstance, Scores]],
    n_best: int = 20,
) -> SpanPrediction:
    """Return the best answer of all windows and the `n_best` alternatives.

    The answer is an exact slice of the passage, or "" for no answer. If the task allows no answer,
    it is one of the alternatives. The windows come with scores [T, 2] of starts and ends.
    """
    best: dict[tuple[int, int], float] = {}  # by characters, as several tokens may share them
    null = math.inf
    for instance, scores in windows:
        null = min(null, float(scores[0, 0]) + float(scores[0, 1]))
        for score, start, stop in _slices(instance, scores, task.options.max_answer_tokens, n_best):
            best[start, stop] = max(score, best.get((start, stop), -math.inf))
    candidates = [(score, start, stop) for (start, stop), score in best.items()]
    candidates.sort(key=lambda one: (-one[0], *one[1:]))
    # A passage without tokens has no answer; 0 keeps the JSON finite.
    null_score = null - candidates[0][0] if candidates else 0.0
    if task.unanswerable or not candidates:
        candidates = sorted([*candidates[:n_best], (null, 0, 0)], key=lambda one: -one[0])
    else:
        candidates = candidates[:n_best]
    powers = np.exp(
        np.array([score for score, _, _ in candidates]) - max(each[0] for each in candidates)
    )
    probabilities: list[float] = (powers / powers.sum()).tolist()
    answers = tuple(
        Answer(example.context[start:stop], start, stop, score, probability)
        for (score, start, stop), probability in zip(candidates, probabilities, strict=True)
    )
    threshold = task.null_threshold if task.unanswerable else math.inf
    return decide(SpanPrediction("", 0, 0, null, null_score, answers), threshold)


def decide(prediction: SpanPrediction, null_threshold: float) -> SpanPrediction:
    """Return the prediction under another threshold: its best slice, or no answer."""
    given = next((answer for answer in prediction.n_best if answer.text), None)
    if given is None or prediction.null_score > null_threshold:
        null = next((a.score for a in prediction.n_best if not a.text), prediction.score)
        return replace(prediction, answer="", start=0, end=0, score=null)
    return replace(
        prediction, answer=given.text, start=given.start, end=given.end, score=given.score
    )


def _best_thresholds(
    predictions: Sequence[SpanPrediction], accepted: Sequence[Sequence[str]], rules: Rules
) -> dict[str, tuple[float, float]]:
    """Return, for each metric, the best score that any null threshold reaches, and the
    threshold.
    """
    texts = [next((a.text for a in p.n_best if a.text), p.answer) for p in predictions]
    scores = score_answers(texts, accepted, rules)
    answered = np.array([float(bool(text)) for text in texts])
    null = np.array([p.null_score for p in predictions], np.float64)
    return {
        name: best_threshold(column, scores.has_answer, answered, null)
        for name, column in (("exact_match", scores.exact), ("f1", scores.f1))
    }


def _slices(
    instance: SpanInstance, scores: Scores, longest: int, count: int
) -> Iterator[tuple[float, int, int]]:
    """Yield the best slices of a window: score, first character, one after the last character."""
    inside = [at for at, offset in enumerate(instance.offsets) if offset is not None]
    if not inside:
        return
    first, size = inside[0], len(inside)
    longest = min(longest, size)
    starts, ends = scores[first : first + size].astype(np.float64).T  # [P] each
    # table[i, j] is the score of the slice from token i to token i + j.
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


Rules = Literal["squad1", "squad2", "cmrc", "script1", "script2"]
"""The rules for comparing answers. `script1` and `script2` are squad1 and squad2 with the words of
a script without blanks.
"""

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_CMRC_MARKS = "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
_NO_CMRC_MARKS = str.maketrans("", "", _CMRC_MARKS)
_CMRC_SEGMENTS = re.compile(
    r"[\u4e00-\u9fa5]|[^\W\u4e00-\u9fa5]+(?:\.[^\W\u4e00-\u9fa5]+|,\d+)*|[^\w\s]"
)


def rules_for(answers: Sequence[Sequence[str]], unanswerable: bool) -> Rules:
    """Return CMRC's rules if most letters of the accepted answers are Chinese, else SQuAD's.

    If most letters belong to another script without blanks, SQuAD's rules use the words of that
    script.
    """
    if is_mostly_chinese(answer for accepted in answers for answer in accepted):
        return "cmrc"
    if without_blanks(answer for accepted in answers for answer in accepted):
        return "script2" if unanswerable else "script1"
    return "squad2" if unanswerable else "squad1"


def normalize_answer(text: str, rules: Rules) -> str:
    """Return the normalized answer; two answers are the same if their normalized forms are
    equal.
    """
    if rules == "cmrc":
        return text.lower().strip().translate(_NO_CMRC_MARKS)
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def score_answer(prediction: str, answers: Sequence[str], rules: Rules) -> tuple[float, float]:
    """Return exact match and F1 of one prediction: the best over the accepted answers.

    Without an accepted answer, the question has no answer, and "" is right.
    """
    if rules in ("squad2", "script2"):
        answers = [answer for answer in answers if normalize_answer(answer, rules)]
    if not answers:
        right = float(not normalize_answer(prediction, rules))
        return right, right
    predicted = normalize_answer(prediction, rules)
    exact = max(float(normalize_answer(answer, rules) == predicted) for answer in answers)
    f1 = _F1[rules]
    return exact, max(f1(predicted, normalize_answer(answer, rules)) for answer in answers)


def _bag_f1(predicted: str, true: str) -> float:
    """Return F1 of the bags of words of two normalized answers."""
    return _shared_f1(predicted.split(), true.split())


def _script_f1(predicted: str, true: str) -> float:
    """Return F1 of the bags of words of two normalized answers in a script without blanks."""
    return _shared_f1(words_of(predicted), words_of(true))


def _shared_f1(a: Sequence[str], b: Sequence[str]) -> float:
    return _f1((Counter(a) & Counter(b)).total(), len(a), len(b))


def _run_f1(predicted: str, true: str) -> float:
    """Return F1 of the longest common run of characters and words of two normalized answers."""
    a, b = _CMRC_SEGMENTS.findall(predicted), _CMRC_SEGMENTS.findall(true)
    longest, row = 0, [0] * (len(b) + 1)
    for x in a:
        row = [0, *(row[j] + 1 if x == y else 0 for j, y in enumerate(b))]
        longest = max(longest, *row)
    return _f1(longest, len(a), len(b))


_F1: Mapping[Rules, Callable[[str, str], float]] = {
    "squad1": _bag_f1,
    "squad2": _bag_f1,
    "cmrc": _run_f1,
    "script1": _script_f1,
    "script2": _script_f1,
}


def _f1(shared: int, a: int, b: int) -> float:
    return 2 * shared / (a + b) if shared else 0.0


@dataclass(frozen=True)
class SpanScores:
    """The scores of E predictions."""

    exact: Float64s
    """Exact match [E], 0 or 1."""
    f1: Float64s
    """F1 [E], from 0 to 1."""
    has_answer: Float64s
    """[E], 1 if the question has an answer in the passage, else 0."""

    @property
    def statistic(self) -> Statistic:
        """The statistic of `exact_match` and `f1`.

        If some questions have no answer, it also has the metrics of each group of questions:
        `has_answer_exact_match`, `has_answer_f1` and `no_answer_exact_match` (which equals that
        group's F1).
        """
        columns = [np.ones_like(self.f1), self.has_answer, self.exact, self.f1]
        columns += [self.exact * self.has_answer, self.f1 * self.has_answer]
        split = not self.has_answer.all()

        def formula(sums: Float64s) -> Mapping[str, Float64s]:
            every, answered, exact, f1, exact_answered, f1_answered = sums.T
            metrics = {"exact_match": ratio(exact, every), "f1": ratio(f1, every)}
            if split:
                metrics["has_answer_exact_match"] = ratio(exact_answered, answered)
                metrics["has_answer_f1"] = ratio(f1_answered, answered)
                none = ratio(exact - exact_answered, every - answered)
                metrics["no_answer_exact_match"] = none
            return metrics

        return of_sums(np.stack(columns, axis=1), formula)


def score_answers(
    predictions: Sequence[str], answers: Sequence[Sequence[str]], rules: Rules
) -> SpanScores:
    """Score E predictions against their accepted answers; "" predicts that there is no answer."""
    scores = [score_answer(p, a, rules) for p, a in zip(predictions, answers, strict=True)]
    exact, f1 = np.array(scores, dtype=np.float64).reshape(-1, 2).T
    return SpanScores(exact, f1, np.array([float(bool(a)) for a in answers]))


def best_threshold(
    scores: Float64s, has_answer: Float64s, answered: Float64s, null_scores: Float64s
) -> tuple[float, float]:
    """Return the best mean score that any null threshold reaches, and that threshold.

    No answer is predicted if the null score exceeds the threshold. The threshold lies midway
    between two null scores, below all of them for "never answer" and above all of them for "always
    answer", so that rounding errors do not change a prediction. (The threshold of SQuAD's script is
    the null score of an example.) Examples with equal null scores are on the same side of the
    threshold.

    Args:
        scores: [E], the score of the best answer that is not null.
        has_answer: [E], whether the question has an answer.
        answered: [E], whether that best answer is not "".
        null_scores: [E], the score of no answer minus that of the best answer.
    """
    order = np.argsort(null_scores, kind="stable")
    ordered = null_scores[order]
    change = np.where(has_answer > 0, scores, -(answered > 0).astype(np.float64))[order]
    reached = (has_answer == 0).sum() + np.concatenate([[0.0], np.cumsum(change)])
    allowed = np.concatenate([[True], np.diff(ordered) > 0, [True]])
    best = int(np.argmax(np.where(allowed, reached, -np.inf)))
    around = np.concatenate([[ordered[0] - 2], ordered, [ordered[-1] + 2]])
    threshold = (around[best] + around[best + 1]) / 2
    return float(reached[best] / len(scores)), float(threshold)


NOT_ANSWERED = "\ufffe"
"""The placeholder of a missing prediction, which SQuAD's script counts as wrong even if the
question has no answer. It is a Unicode noncharacter, so it never equals an answer.
"""


def _made_elsewhere(answer: str) -> SpanPrediction:
    return SpanPrediction(answer, 0, 0, 0.0, 0.0, ())


class SpanKind(Kind[SpanTask, SpanExample, SpanInstance, SpanPrediction]):
    """Extractive question answering."""

    name = "span"
    task_class = SpanTask
    prediction = SpanPrediction
    reader = ANSWERS
    example = SpanExample
    fields = (("question", "context", "answers"),)
    inputs = ("question", "context")
    expected_input = "a question and a passage"
    usual_stride = 128
    scores_tokens = True
    graph = ScoreGraph(
        lambda inputs: SpanBatch(inputs, rows=(0,)),
        ("start_logits", "end_logits"),
        of_tokens=True,
    )

    def source(self, example: SpanExample) -> Hashable:
        """Return the title of the passage's article, or the passage if there is no title."""
        return example.title or example.context

    def usual_length(self, options: SpanOptions) -> int | None:
        return 384  # Devlin et al. 2019, as in their run_squad.py

    def make_task(
        self, options: SpanOptions, read: Read, examples: Sequence[SpanExample], **common: Any
    ) -> SpanTask:
        unanswerable = any(example.answers == () for example in examples)
        return SpanTask(options=options, unanswerable=unanswerable, **common)

    def make(
        self, task: SpanTask, tokenizer: Tokenizer, examples: Sequence[SpanExample]
    ) -> tuple[list[SpanInstance], Lengths]:
        """Return one instance for each window; those of an example are adjacent, in the passage's
        order.

        The label is the first answer that is found at its start offset.
        """
        framing = tokenizer.framing
        room = task.max_length - framing.special_tokens(paired=True)
        longest = min(LONGEST_QUESTION, room // 2)
        passages: dict[str, _Passage] = {}
        instances: list[SpanInstance] = []
        lengths = Lengths()
        for number, example in enumerate(examples):
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
                has_most_context = np.pad(best[start:stop] == window, (before, after))
                instances.append(
                    SpanInstance(
                        number,
                        (ids,),
                        (segments_of(framing, len(question), stop - start),),
                        _label(answer, start, stop, before),
                        offsets=[*[None] * before, *passage.offsets[start:stop], *[None] * after],
                        has_most_context=has_most_context,
                    )
                )
            lost = max(0, len(whole) - longest)
            lengths.add(whole_length(framing, whole, passage.ids), len(spans), lost)
        return instances, lengths

    def collate(
        self,
        task: SpanTask,
        instances: Sequence[SpanInstance],
        rows: Sequence[int],
        with_labels: bool,
    ) -> SpanBatch:
        windows = windows_of(instances)
        labels = None
        if with_labels:
            positions = [instances[n].label for n in windows.owners]
            labels = torch.tensor(positions, dtype=torch.long).reshape(-1, 2)
        return SpanBatch(
            windows.inputs,
            rows=tuple(rows[n] for n in windows.owners),
            labels=labels,
        )

    def room(self, task: SpanTask) -> str:
        return one_window(task)

    def head(self, spec: EncoderSpec, task: SpanTask) -> Head[SpanBatch]:
        return SpanHead(spec, task)

    def decode(
        self,
        task: SpanTask,
        examples: Sequence[SpanExample],
        instances: Sequence[SpanInstance],
        scored: Iterator[Scored],
    ) -> Iterator[tuple[int, SpanPrediction]]:
        """Yield the answer to each question once all windows are scored."""
        windows: dict[int, list[tuple[SpanInstance, Float32s]]] = {}
        for batch, _, scores in scored:
            values, offsets = scores.cpu().numpy(), batch.inputs.sequences.offsets
            for number, row in enumerate(batch.rows):
                of_window = values[offsets[number] : offsets[number + 1]]
                windows.setdefault(instances[row].example, []).append((instances[row], of_window))
        for number, scored_windows in windows.items():
            yield number, decode_span(task, examples[number], scored_windows)

    def tune(
        self,
        task: SpanTask,
        examples: Sequence[SpanExample],
        predictions: Sequence[SpanPrediction],
        metric: str | None,
    ) -> tuple[SpanTask, Sequence[SpanPrediction]]:
        """Return the task with the `null_threshold` under which the predictions score best, and the
        predictions under it.
        """
        if not task.unanswerable:
            return task, predictions
        name = "exact_match" if metric is not None and metric.endswith("exact_match") else "f1"
        accepted = [[text for text, _ in example.answers or ()] for example in examples]
        _, threshold = _best_thresholds(predictions, accepted, rules_for(accepted, True))[name]
        decided = [decide(prediction, threshold) for prediction in predictions]
        return replace(task, null_threshold=threshold), decided

    def parse_prediction(self, value: Any, example: SpanExample, where: str) -> SpanPrediction:
        return _made_elsewhere("" if value is None else str(value))

    def read_predictions(self, path: str, read: Read) -> list[SpanPrediction] | None:
        """Read answers by the ids of their questions, in the format of SQuAD's script; None if the
        file is a table.
        """
        counts = ByteCounts()
        lines = read_lines(open_bytes(Path(path)), path, counts)
        text = "\n".join(line for _, line in lines.numbered())
        try:
            answers = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(answers, dict) or not all(isinstance(v, str) for v in answers.values()):
            return None
        ids = [getattr(example, "id", "") for example in read.examples]
        if missing := [id_ for id_ in ids if id_ not in answers]:
            what = (
                f"has no answer to {len(missing):,} of {len(ids):,} questions: {listed(missing, 3)}"
            )
            if len(missing) == len(ids):
                raise DataError(
                    f'{path} {what}; expected {{"id": "answer", ...}}, "" for no answer'
                )
            read.log.warnings.append(f"{path} {what}; each of them counts as wrong")
        read.log.warnings.extend(f"{path}: {remark}" for remark in counts.byte_remarks())
        return [_made_elsewhere(answers.get(id_, NOT_ANSWERED)) for id_ in ids]

    def metric_names(self, task: SpanTask) -> tuple[str, ...]:
        names = ("f1", "exact_match")
        if not task.unanswerable:
            return names
        by_sort = ("has_answer_exact_match", "has_answer_f1", "no_answer_exact_match")
        return *names, *by_sort, "best_exact_match", "best_f1"

    def metrics(
        self,
        task: SpanTask,
        examples: Sequence[SpanExample],
        predictions: Sequence[SpanPrediction],
    ) -> Metrics:
        """Return exact match and F1 of predicted answers."""
        gold = [[text for text, _ in e.answers or ()] for e in examples]
        rules = rules_for(gold, bool(task.unanswerable))
        scores = score_answers([p.answer for p in predictions], gold, rules)
        wrong = {
            row: (predictions[row].n_best[0].probability if predictions[row].n_best else 0.0)
            for row in np.flatnonzero(scores.f1 == 0).tolist()
        }
        metrics = Metrics(
            main="f1",
            statistic=scores.statistic,
            errors=wrong,
            describe=lambda row: (gold[row][0] if gold[row] else "", predictions[row].answer),
            rules=rules,
        )
        if scores.has_answer.any() and not any(p.answer for p in predictions):
            metrics.degenerate = f"predicts no answer for all {len(predictions)} questions"
        if task.unanswerable and any(p.n_best for p in predictions):
            for name, reached in _best_thresholds(predictions, gold, rules).items():
                metrics.best[f"best_{name}"], metrics.tuned[f"best_{name}_threshold"] = reached
        return metrics

    def gold(self, example: SpanExample) -> list[str]:
        return [text for text, _ in example.answers or ()]

    def shown(self, example: SpanExample) -> tuple[str | None, str | None]:
        return example.question, example.context
