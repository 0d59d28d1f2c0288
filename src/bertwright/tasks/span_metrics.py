"""Exact match and F1 of answers, as the evaluation scripts of SQuAD 1.1, SQuAD 2.0 and CMRC 2018.

SQuAD 1.1 (Rajpurkar et al., EMNLP 2016, section 6.1): an answer is lower-cased, then punctuation
(ASCII), the articles "a", "an", "the" and double spaces go; F1 is over its words, as a bag; an
example's score is its best over the accepted answers.

SQuAD 2.0 (Rajpurkar, Jia and Liang, ACL 2018): a question may have no answer; the right prediction
is then "", and F1 is 1 or 0. An accepted answer that is nothing but articles and punctuation does
not count; if all are, the question has none.

CMRC 2018 (Cui et al., EMNLP 2019; Chinese): what goes is a list of marks (half and full width; the
full stop and comma of ASCII stay), and F1 is over the longest common run (a substring, not a
subsequence) of characters and words: each Chinese character stands alone. The script cuts what is
between them with NLTK; here a rule does: a word, a number with its "." and ",", a mark.

Letters: E examples.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bertwright.arrays import Float64s
from bertwright.labelled.examples import is_mostly_chinese
from bertwright.tasks.metrics import Statistic, of_sums, ratio

Rules = Literal["squad1", "squad2", "cmrc"]

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_CMRC_MARKS = "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
_NO_CMRC_MARKS = str.maketrans("", "", _CMRC_MARKS)
_CMRC_SEGMENTS = re.compile(
    r"[\u4e00-\u9fa5]|[^\W\u4e00-\u9fa5]+(?:\.[^\W\u4e00-\u9fa5]+|,\d+)*|[^\w\s]"
)


def rules_for(answers: Sequence[Sequence[str]], unanswerable: bool) -> Rules:
    """CMRC's where most letters of the accepted answers are Chinese, else SQuAD's."""
    if is_mostly_chinese(answer for accepted in answers for answer in accepted):
        return "cmrc"
    return "squad2" if unanswerable else "squad1"


def normalize_answer(text: str, rules: Rules) -> str:
    """What two answers must share to be the same."""
    if rules == "cmrc":
        return text.lower().strip().translate(_NO_CMRC_MARKS)
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def score_answer(prediction: str, answers: Sequence[str], rules: Rules) -> tuple[float, float]:
    """Exact match and F1 of one prediction: the best over the accepted answers.

    No accepted answer means that there is none, and "" is right.
    """
    if rules == "squad2":
        answers = [answer for answer in answers if normalize_answer(answer, rules)]
    if not answers:
        right = float(not normalize_answer(prediction, rules))
        return right, right
    predicted = normalize_answer(prediction, rules)
    exact = max(float(normalize_answer(answer, rules) == predicted) for answer in answers)
    f1 = _run_f1 if rules == "cmrc" else _bag_f1
    return exact, max(f1(predicted, normalize_answer(answer, rules)) for answer in answers)


def _bag_f1(predicted: str, true: str) -> float:
    """F1 of the words of two normalized answers, each word as often as it is there."""
    a, b = predicted.split(), true.split()
    return _f1((Counter(a) & Counter(b)).total(), len(a), len(b))


def _run_f1(predicted: str, true: str) -> float:
    """F1 of the longest common run of characters and words of two normalized answers."""
    a, b = _CMRC_SEGMENTS.findall(predicted), _CMRC_SEGMENTS.findall(true)
    longest, row = 0, [0] * (len(b) + 1)
    for x in a:
        row = [0, *(row[j] + 1 if x == y else 0 for j, y in enumerate(b))]
        longest = max(longest, *row)
    return _f1(longest, len(a), len(b))


def _f1(shared: int, a: int, b: int) -> float:
    return 2 * shared / (a + b) if shared else 0.0


@dataclass(frozen=True)
class SpanScores:
    """How each of E predictions scored."""

    exact: Float64s
    """[E], 0 or 1."""
    f1: Float64s
    """[E], 0 to 1."""
    has_answer: Float64s
    """[E], 1 where the passage answers the question."""

    @property
    def statistic(self) -> Statistic:
        """`exact_match` and `f1`; where some questions have no answer, also of each sort alone:
        `has_answer_exact_match`, `has_answer_f1`, `no_answer_exact_match` (its F1 is the same)."""
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
    """Score E predictions against their accepted answers; "" predicts that there is none."""
    scores = [score_answer(p, a, rules) for p, a in zip(predictions, answers, strict=True)]
    exact, f1 = np.array(scores, dtype=np.float64).reshape(-1, 2).T
    return SpanScores(exact, f1, np.array([float(bool(a)) for a in answers]))


def best_threshold(
    scores: Float64s, has_answer: Float64s, answered: Float64s, null_scores: Float64s
) -> tuple[float, float]:
    """The best mean score that any null threshold reaches, and that threshold.

    All [E]: `scores` of the best answer that is not null, whether there is an answer, whether that
    best answer is more than "", and how much the null score exceeds the best answer's. No answer is
    predicted where that is more than the threshold. Unlike the script's, which starts at 0 and is
    the null score of an example, it lies midway between two of them, that of "never answer" below
    all, that of "always" above: rounding decides nothing. Equal null scores go together.
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
