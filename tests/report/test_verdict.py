"""What `results.json` says, in words."""

from __future__ import annotations

import re
from typing import Any

import pytest
from scipy.stats import binomtest

from bertwright.report.numbers import baseline_title, show, spread, title
from bertwright.report.verdict import (
    failed,
    falling_loss,
    needs_epochs,
    next_steps,
    pretraining_verdict,
    verdict,
    wilson,
)


def run(
    values: tuple[float, ...],
    baselines: dict[str, float],
    interval: tuple[float, float] | None = None,
    main: str = "accuracy",
    fallen: tuple[int, ...] = (),
) -> dict[str, Any]:
    return {
        "main": main,
        "seeds": [
            {"seed": seed, "metrics": {main: value}, "degenerate": seed in fallen}
            | {"best_epoch": 3.0, "epochs": 5.0}
            for seed, value in enumerate(values, 1)
        ],
        "summary": {main: {"mean": sum(values) / len(values), "sd": 0.01, "max": max(values)}},
        "intervals": {main: list(interval)} if interval else {},
        "baselines": {name: {main: value} for name, value in baselines.items()},
        "task": {"kind": "classification"},
        "best_seed": 1,
        "data": {"train": {"examples": 9000}},
        "settings": {"learning_rate": 1e-3, "epochs": 5.0},
    }


@pytest.mark.parametrize(
    ("found", "answer", "words"),
    [
        (
            run((0.9, 0.92), {"majority": 0.5, "tfidf": 0.8}, (0.88, 0.94)),
            "yes",
            r"91\.0%.*80\.0%.*TF-IDF.*11\.0 points better.*88\.0% to 94\.0%",
        ),
        (run((0.9, 0.92), {"tfidf": 0.8}), "yes", "Every seed"),
        (run((0.9, 0.92), {"tfidf": 0.89}, (0.88, 0.94)), "perhaps", "88.0% to 94.0%"),
        (run((0.9, 0.82), {"tfidf": 0.85}), "perhaps", "1 of 2 seeds"),
        (run((0.9,), {"tfidf": 0.8}), "perhaps", "one seed"),
        (run((0.9,), {"tfidf": 0.8}, (0.85, 0.95)), "yes", "85.0% to 95.0%"),
        (run((0.7, 0.72), {"tfidf": 0.8}), "no", r"71\.0%.*80\.0%.*9\.0 points worse"),
        (run((0.5, 0.5), {"majority": 0.5}), "no", r"50\.0%.*50\.0%"),
        (run((0.5, 0.5), {"majority": 0.4}, None, "accuracy", (1, 2)), "no", "degenerate"),
        (
            run((0.5, 0.9), {"tfidf": 0.8}, None, "accuracy", (1,)),
            "perhaps",
            "1 of 2 seeds are degenerate",
        ),
        (run((0.9,), {}), "unknown", "--baselines"),
        (run((float("nan"),), {}), "unknown", "no main metric"),
        (
            run((0.2, 0.3), {"mean": 0.9}, (0.1, 0.4), "mean_squared_error"),
            "yes",
            r"0\.250 mean squared error.*0\.900",
        ),
        (
            run((0.2, 0.3), {"mean": 0.35}, (0.1, 0.4), "mean_squared_error"),
            "perhaps",
            "0.100 to 0.400",
        ),
        (run((0.55, 0.57), {"tfidf": 0.4}, None, "matthews"), "yes", "0.16 better"),
    ],
)
def test_the_verdict(found: dict[str, Any], answer: str, words: str) -> None:
    assert verdict(found).answer == answer
    assert re.search(words, verdict(found).sentence)


@pytest.mark.parametrize(
    ("metric", "value", "shown"),
    [
        ("accuracy", 0.9123, "91.2%"),
        ("f1", 1, "100.0%"),
        ("matthews", 0.5634, "0.563"),
        ("pearson", -0.1, "-0.100"),
        ("mean_squared_error", 1234.5, "1,234.5"),
        ("accuracy", None, "-"),
        ("accuracy", float("nan"), "-"),
        ("accuracy", True, "-"),
    ],
)
def test_show(metric: str, value: object, shown: str) -> None:
    assert show(metric, value) == shown


def test_spread() -> None:
    assert spread("accuracy", 0.912, 0.0041) == "91.2% ± 0.4"
    assert spread("matthews", 0.56, 0.012) == "0.560 ± 0.012"
    assert spread("accuracy", 0.912, None) == "91.2%"
    assert spread("accuracy", None, 0.1) == "-"


def test_names() -> None:
    assert title("macro_f1") == "macro F1"
    assert title("has_answer_f1") == "has answer F1"
    assert baseline_title("word_shape") == "word shapes + logistic regression"
    assert baseline_title("my_own") == "my own"


@pytest.mark.parametrize(
    ("masked", "follows", "answer", "shown"),
    [
        (0.30, 0.80, "yes", r"30\.0%.*5\.0%"),
        (0.30, 0.51, "perhaps", r"51\.0%.*--minutes"),
        (0.06, 0.51, "no", r"6\.0%.*bertwright data check"),
    ],
)
def test_what_pre_training_has_learned(
    masked: float, follows: float, answer: str, shown: str
) -> None:
    last = {"split": "dev", "masked_lm.accuracy": masked, "next_sentence.accuracy": follows}
    records = [{"split": "dev", "masked_lm.accuracy": 0.9}, last, {"split": "train"}]
    found = pretraining_verdict(records, {"masked_lm.accuracy": 0.05})
    assert found.answer == answer
    assert re.search(shown, found.sentence)


def test_intervals_are_wilsons() -> None:
    for right, count in ((0, 7), (3, 7), (120, 131), (50, 50)):
        ends = binomtest(right, count).proportion_ci(method="wilson")
        assert wilson(right / count, count) == pytest.approx((ends.low, ends.high), abs=1e-7)


def test_few_predictions_are_not_enough() -> None:
    records = [{"split": "dev", "masked_lm.accuracy": 0.15}]
    level = {"masked_lm.accuracy": 0.1}
    assert pretraining_verdict(records, level, {"masked_lm.accuracy": 5000}).answer == "yes"
    found = pretraining_verdict(records, level, {"masked_lm.accuracy": 50})
    assert found.answer == "no"
    assert "95% interval" in found.sentence


def test_losses_without_accuracy_are_not_compared() -> None:
    assert pretraining_verdict([{"split": "dev", "skip_gram.loss": 2.0}]) == ("unknown", "")
    assert pretraining_verdict([]).answer == "unknown"


def test_a_line_of_training_does_not_say_whether_it_has_learned() -> None:
    """As of a run that was stopped before its first validation."""
    found = pretraining_verdict([{"split": "train", "next_sentence.accuracy": 0.9}])
    assert found.answer == "unknown"
    assert "--validation.fraction" in found.sentence


def test_what_to_try_next() -> None:
    assert next_steps(run((0.9, 0.92), {"tfidf": 0.8})) == ""
    advice = next_steps(run((0.7, 0.72), {"tfidf": 0.8}))
    for part in ("--learning-rate", "--epochs", "more labelled examples", "the baseline"):
        assert part in advice


def test_a_model_that_learned_nothing() -> None:
    assert not failed(run((0.9,), {}) | {"best_seed": 1})
    for values, main, fallen, kind, expected in (
        ((0.5,), "accuracy", (1,), "classification", True),
        ((0.0,), "f1", (), "tagging", True),
        ((0.0,), "pearson", (), "regression", False),
    ):
        found = run(values, {}, main=main, fallen=fallen) | {"best_seed": 1, "task": {"kind": kind}}
        assert failed(found) is expected
        assert bool(next_steps(found)) is expected


def test_a_loss_that_falls_asks_for_more_epochs():
    def records(*losses, seed=1):
        return [{"split": "train", "seed": seed, "loss": loss} for loss in losses]

    results = {"best_seed": 2}
    assert "from 0.7 to 0.5" in falling_loss(results, records(0.7, 0.6, 0.5, seed=2))
    assert falling_loss(results, records(0.7, 0.69, 0.7, seed=2)) == ""
    assert falling_loss(results, records(0.9, 0.1) + records(0.5, 0.5, seed=2)) == ""
    assert "short" in falling_loss(results, records(0.7, seed=2))


@pytest.mark.parametrize(
    ("losses", "best_epoch", "says"),
    [
        ((1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3), 5.0, True),
        ((1.0, 0.5, 0.3, 0.2, 0.2, 0.2, 0.2, 0.199), 5.0, False),  # level
        ((1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3), 3.0, False),  # learned by heart since epoch 3
        ((1.0, 0.5, 0.2), 5.0, False),  # too few to tell
    ],
)
def test_a_run_that_was_still_learning_needs_epochs(
    losses: tuple[float, ...], best_epoch: float, says: bool
) -> None:
    results = run((0.9,), {"tfidf": 0.8})
    results["seeds"][0]["best_epoch"] = best_epoch
    records = [{"split": "train", "seed": 1, "loss": loss} for loss in losses]
    records.append({"split": "dev", "seed": 1, "accuracy": 0.9})
    assert bool(needs_epochs(results, records)) == says


def test_a_fitted_head_has_no_rate_to_change() -> None:
    results = run((0.7,), {"tfidf": 0.8})
    assert "--learning-rate" in next_steps(results)
    fitted = next_steps(results | {"fit": {"C": 0.1}})
    assert "--learning-rate" not in fitted
    assert "--transfer finetune" in fitted


@pytest.mark.parametrize(
    ("record", "levels", "names_the_option"),
    [
        ({"split": "train", "next_token.accuracy": 0.2}, {"next_token.accuracy": 0.1}, True),
        # a sampled softmax is trained without an accuracy
        ({"split": "train", "next_token.loss": 6.0}, {"next_token.accuracy": 0.1}, True),
        ({"split": "train", "loss": 6.0}, {}, False),
    ],
)
def test_without_held_out_text_nothing_is_known(
    record: dict[str, Any], levels: dict[str, float], names_the_option: bool
) -> None:
    found = pretraining_verdict([record], levels)
    assert found.answer == "unknown"
    assert ("--validation.fraction" in found.sentence) is names_the_option
