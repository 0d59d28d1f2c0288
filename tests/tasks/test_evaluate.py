from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import pytest

from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError, DataError
from bertwright.labelled.examples import (
    ChoiceExample,
    Example,
    SpanExample,
    TaggingExample,
    TextExample,
)
from bertwright.tasks.choices.options import MultipleChoiceTask
from bertwright.tasks.evaluate import check_main, evaluate, metrics_of
from bertwright.tasks.predictions import (
    Answer,
    ChoicePrediction,
    NumberPrediction,
    Prediction,
    SpanPrediction,
    TaggingPrediction,
    TextPrediction,
)
from bertwright.tasks.span.options import SpanTask
from bertwright.tasks.tagging.options import TaggingTask
from bertwright.tasks.texts.options import ClassificationOptions, ClassificationTask, RegressionTask

CLASSES = ClassificationTask(labels=("no", "yes"))
SETS = ClassificationTask(labels=("a", "b"), options=ClassificationOptions(multi_label=True))
NUMBERS = RegressionTask()
ENTITIES = TaggingTask(labels=("O", "B-X", "I-X"), scheme="iob2")
TAGS = TaggingTask(labels=("N", "V"))
SPANS = SpanTask(unanswerable=True)
CHOICES = MultipleChoiceTask()


def texts(*labels: Any) -> list[Example]:
    return [TextExample(f"text {n}", "second", label, line=n + 2) for n, label in enumerate(labels)]


def classes(*chances: float) -> list[Prediction]:
    """Of "yes"."""
    return [TextPrediction("yes" if p >= 0.5 else "no", {"no": 1 - p, "yes": p}) for p in chances]


def numbers(*values: float) -> list[Prediction]:
    return [NumberPrediction(value) for value in values]


def sets(*labels: tuple[str, ...]) -> list[Prediction]:
    return [
        TextPrediction(held, {name: 0.9 if name in held else 0.2 for name in "ab"})
        for held in labels
    ]


def sentence(tags: str, line: int = 0) -> TaggingExample:
    words = tuple(f"w{n}" for n in range(len(tags.split())))
    return TaggingExample(words, tuple(tags.split()), line=line)


def tagged(tags: str, scores: tuple[float, ...] | None = None) -> TaggingPrediction:
    cut = tuple(tags.split())
    words = tuple(f"w{n}" for n in range(len(cut)))
    return TaggingPrediction(words, cut, scores or (0.5,) * len(cut), ())


def answer(text: str, null: float, best: str, probability: float = 0.5) -> SpanPrediction:
    return SpanPrediction(text, 0, 0, 1.0, null, (Answer(best, 0, 0, 1.0, probability),))


def test_classes() -> None:
    examples = texts("yes", "no", "no", "yes", "yes")
    found = evaluate(CLASSES, examples, classes(0.9, 0.8, 0.3, 0.1, 0.7))
    assert found.main == "accuracy"
    assert list(found.metrics) == ["accuracy", "f1", "macro_f1", "micro_f1", "matthews"]
    assert found.score == found.metrics["accuracy"] == 0.6
    assert found.metrics["f1"] == pytest.approx(2 / 3)  # of "yes", the second label
    assert set(found.intervals) == set(found.metrics)
    assert all(low <= high for low, high in found.intervals.values())
    low, high = found.intervals["accuracy"]
    assert low < 0.6 < high
    assert found.confusion == {"labels": ["no", "yes"], "counts": [[1, 1], [1, 2]]}
    assert [row["support"] for row in found.per_class] == [2, 3]
    assert found.examples == sum(b["count"] for b in found.calibration["bins"]) == 5
    # the surest error first
    assert found.worst[0] == pytest.approx(
        {"text": "text 3", "text2": "second", "gold": "yes", "predicted": "no"}
        | {"score": 0.9, "line": 5}
    )
    assert [error["line"] for error in found.worst] == [5, 3]
    assert not found.degenerate
    assert not found.warnings


def test_f1_is_of_the_label_1_and_the_caller_names_the_main_metric() -> None:
    task = ClassificationTask(labels=("1", "0"))
    predictions = [TextPrediction("1", {"1": 0.9, "0": 0.1})] * 3
    found = evaluate(task, texts("1", "0", "0"), predictions, intervals=False)
    assert found.metrics["f1"] == pytest.approx(0.5)
    assert not found.intervals
    found = evaluate(CLASSES, texts("yes", "no"), classes(0.9, 0.9), main="matthews", worst=0)
    assert (found.main, next(iter(found.metrics))) == ("matthews", "matthews")
    assert set(found.intervals) == set(found.metrics)
    assert found.worst == []


ANSWERED = [SpanExample("q", "c", (("c", 0),))]
TWO_CHOICES = [ChoiceExample("t", ("x", "y"), label=n) for n in (0, 1)]
ONE_ANSWER = "degenerate: the model predicts "


@pytest.mark.parametrize(
    ("task", "examples", "predictions", "warning"),
    [
        (CLASSES, texts("yes", "no"), classes(0.9, 0.8), ONE_ANSWER + "'yes' for all 2 examples"),
        (CLASSES, texts("yes", "yes"), classes(0.9, 0.8), ""),
        (CLASSES, texts("yes", "no", "no"), classes(0.1, 0.8, 0.2), ""),
        (
            CLASSES,
            texts("yes", "no"),
            classes(0.1, 0.8),
            "accuracy is 0: no prediction is right",
        ),
        (SETS, texts(("a",), ()), sets((), ()), ONE_ANSWER + "'no label' for all 2 examples"),
        (NUMBERS, texts(1.0, 3.0), numbers(2.0, 2.001), ONE_ANSWER + "about 2 for all 2 examples"),
        (NUMBERS, texts(2.0, 2.0), numbers(2.0, 2.0), ""),
        (NUMBERS, texts(1.0, 3.0), numbers(2.0, 2.2), ""),
        (
            ENTITIES,
            [sentence("B-X I-X O B-X")],
            [tagged("O O O O")],
            ONE_ANSWER + "no entity; there are 2",
        ),
        (ENTITIES, [sentence("O O")], [tagged("O O")], ""),
        (TAGS, [sentence("N V")], [tagged("N N")], ONE_ANSWER + "'N' for all 2 examples"),
        (SPANS, ANSWERED, [answer("", 1.0, "c")], ONE_ANSWER + "no answer for all 1 questions"),
        (SPANS, [SpanExample("q", "c", ())], [answer("", 1.0, "c")], ""),
        (
            CHOICES,
            TWO_CHOICES,
            [ChoicePrediction(1, (0.1, 0.9))] * 2,
            ONE_ANSWER + "'choice 2' for all 2 examples",
        ),
    ],
)
def test_what_learned_one_answer_only_is_named(
    task: TaskConfig, examples: list[Example], predictions: list[Prediction], warning: str
) -> None:
    """Where there is more than one; so is what has nothing right."""
    found = evaluate(task, examples, predictions, intervals=False)
    assert found.degenerate == warning.startswith(ONE_ANSWER)
    assert [each[: len(warning)] for each in found.warnings] == ([warning] if warning else [])


def test_label_sets() -> None:
    found = evaluate(SETS, texts(("a",), ("a", "b"), ()), sets(("a",), ("b",), ("b",)))
    assert found.main == "micro_f1"
    assert found.metrics == pytest.approx(
        {"micro_f1": 2 * 2 / (3 + 3), "macro_f1": (2 / 3 + 2 / 3) / 2, "exact_match": 1 / 3}
    )
    assert [row["recall"] for row in found.per_class] == [0.5, 1.0]


def test_numbers() -> None:
    found = evaluate(NUMBERS, texts(1.0, 2.0, 4.0), numbers(1.0, 2.5, 2.0), worst=1)
    assert found.main == "pearson"
    assert found.metrics["spearman"] == pytest.approx(0.5)
    mean = (found.metrics["pearson"] + found.metrics["spearman"]) / 2
    assert found.metrics["pearson_spearman"] == pytest.approx(mean)
    assert found.metrics["mean_absolute_error"] == pytest.approx(2.5 / 3)
    assert [(e["gold"], e["predicted"], e["score"]) for e in found.worst] == [("4", "2", 2.0)]


def test_entities() -> None:
    examples: list[Example] = [sentence("B-X I-X O", 1), sentence("O B-X", 5)]
    predictions: list[Prediction] = [tagged("B-X O O", (0.9, 0.7, 0.6)), tagged("O I-X")]
    found = evaluate(ENTITIES, examples, predictions)
    assert (found.main, found.score) == ("f1", 0.5)
    assert found.metrics["accuracy"] == 3 / 5
    assert found.worst[0] == {"text": "w0 w1 w2", "text2": None, "gold": "X w0 w1"} | {
        "predicted": "X w0",
        "score": 0.7,
        "line": 1,
    }
    assert found.per_class[0]["label"] == "X"
    labels = ["B-X", "I-X", "O"]  # of words, not of entities
    assert found.confusion == {"labels": labels, "counts": [[1, 1, 0], [0, 0, 1], [0, 0, 2]]}


def test_tags_without_a_scheme() -> None:
    """A sentence is as wrong as its surest wrong word."""
    examples: list[Example] = [sentence("N N V V")]
    found = evaluate(TAGS, examples, [tagged("N V N V", (0.99, 0.6, 0.8, 0.9))])
    assert [error["score"] for error in found.worst] == [0.8]
    assert (found.main, found.score) == ("accuracy", 0.5)
    assert found.confusion == {"labels": ["N", "V"], "counts": [[1, 1], [1, 1]]}


def test_answers() -> None:
    examples: list[Example] = [
        SpanExample("who", "Ada Lovelace did", (("Ada Lovelace", 0),), line=3),
        SpanExample("when", "Ada Lovelace did", ()),
    ]
    predictions: list[Prediction] = [answer("", 0.5, "Ada", 0.8), answer("did", -1.0, "did", 0.6)]
    found = evaluate(SPANS, examples, predictions)
    assert (found.main, found.score, found.rules) == ("f1", 0.0, "squad2")
    assert found.metrics["no_answer_exact_match"] == 0
    # with a threshold that never answers one of two is right; one that answers both: "Ada", 2/3
    assert found.metrics["best_exact_match"] == 0.5
    assert found.metrics["best_f1"] == 0.5
    assert found.tuned["best_f1_threshold"] < -1
    assert "best_f1" not in found.intervals
    assert [(e["text"], e["text2"], e["gold"], e["predicted"]) for e in found.worst] == [
        ("who", "Ada Lovelace did", "Ada Lovelace", ""),
        ("when", "Ada Lovelace did", "", "did"),
    ]


def test_the_best_threshold_brings_back_answers_that_were_withheld() -> None:
    """And one that is half right is none of the worst."""
    examples: list[Example] = [
        SpanExample("who", "Ada Lovelace did", (("Ada Lovelace", 0),)),
        SpanExample("when", "Ada Lovelace did", ()),
    ]
    found = evaluate(SPANS, examples, [answer("", 0.5, "Ada"), answer("", 2.0, "did")])
    assert found.metrics["f1"] == 0.5
    assert found.metrics["best_f1"] == pytest.approx((2 / 3 + 1) / 2)
    assert found.tuned["best_f1_threshold"] == 1.25
    found = evaluate(SPANS, examples, [answer("Ada", -1.0, "Ada"), answer("did", -1.0, "did")])
    assert [error["text"] for error in found.worst] == ["when"]


def test_choices() -> None:
    predictions = [ChoicePrediction(1, (0.4, 0.6)), ChoicePrediction(1, (0.2, 0.8))]
    found = evaluate(CHOICES, TWO_CHOICES, predictions)
    assert (found.main, found.score) == ("accuracy", 0.5)
    assert (found.worst[0]["gold"], found.worst[0]["predicted"]) == ("x", "y")


def test_all_of_it_goes_into_json() -> None:
    found = evaluate(CLASSES, texts("yes", "no"), classes(0.9, 0.8))
    back = json.loads(json.dumps(found.as_dict()))
    assert back["main"] == "accuracy"
    assert back["degenerate"] is True
    assert back["intervals"]["accuracy"] == list(found.intervals["accuracy"])
    assert set(back) >= {"metrics", "per_class", "confusion", "calibration", "worst", "warnings"}


def test_a_number_that_is_not_finite_cannot_be_evaluated() -> None:
    with pytest.raises(DataError, match="prediction 1 is nan"):
        evaluate(NUMBERS, texts(1.0), numbers(math.nan))


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("bleu", "'bleu'.*pearson, spearman"),
        ("mean_squared_error", "mean_squared_error.*small"),
    ],
)
def test_metrics_that_cannot_select(metric: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate(NUMBERS, texts(1.0), numbers(1.0), main=metric)


def test_metrics_and_baselines_do_not_load_scikit_learn() -> None:
    program = "import sys, bertwright.tasks.evaluate, bertwright.tasks.baselines\n"
    program += "sys.exit(any(name in sys.modules for name in ('sklearn', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


EVERY_KIND: list[Any] = [
    (CLASSES, texts("yes", "no", "no"), classes(0.1, 0.8, 0.2)),
    (SETS, texts(("a",), ("b",)), sets(("a",), ("a", "b"))),
    (NUMBERS, texts(1.0, 2.0), numbers(1.5, 1.7)),
    (ENTITIES, [sentence("O B-X")], [tagged("B-X B-X")]),
    (TAGS, [sentence("N V")], [tagged("N N")]),
    (
        SPANS,
        [SpanExample("q", "c", (("c", 0),)), SpanExample("q", "c", ())],
        [answer("c", 0.0, "c"), answer("", 1.0, "c")],
    ),
    (CHOICES, [ChoiceExample("t", ("a", "b"), label=1)], [ChoicePrediction(0, (0.6, 0.4))]),
]


@pytest.mark.parametrize(("task", "examples", "predictions"), EVERY_KIND)
def test_the_metrics_that_are_promised_are_those_that_are_told(
    task: TaskConfig, examples: list[Example], predictions: list[Prediction]
) -> None:
    assert tuple(evaluate(task, examples, predictions).metrics) == metrics_of(task)
    with pytest.raises(ConfigError, match="'bleu'"):
        check_main(metrics_of(task), "bleu")
