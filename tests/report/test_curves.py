"""Curves over seeds."""

from __future__ import annotations

from typing import Any

from bertwright.report.curves import seed_curves
from tests.report.finetuned_runs import records, span, topics


def drawn_curves(found: dict[str, Any], measured: list[dict[str, Any]]) -> str:
    return "".join(seed_curves(found, measured))


def test_one_seed_is_a_whole_line_and_without_epochs_steps_count() -> None:
    found = span()
    measured = [{k: v for k, v in r.items() if k != "epoch"} for r in records(found)]
    drawn = drawn_curves(found, measured)
    assert "<title>seed 1</title>" in drawn
    assert ">epochs<" not in drawn
    assert ">epochs<" in drawn_curves(found, records(found))


def test_the_best_baseline_is_a_level() -> None:
    found = topics()
    assert "TF-IDF + logistic regression: 82.2%" in drawn_curves(found, records(found))
    assert "most frequent" not in drawn_curves(found, records(found))


def test_lines_at_one_height_are_drawn_from_zero() -> None:
    found = topics() | {"baselines": {}}
    flat = [{"seed": 1, "split": "dev", "epoch": n, "accuracy": 1.0} for n in (1, 2)]
    drawn = drawn_curves(found, flat)
    assert ">100%<" in drawn
    assert ">0%<" in drawn
    assert ">200%<" not in drawn


def test_nothing_measured_is_nothing_drawn() -> None:
    assert drawn_curves(topics(), []) == ""


def test_the_best_baseline_of_an_error_is_the_smallest() -> None:
    main = "mean_absolute_error"
    found = topics() | {
        "main": main,
        "baselines": {"mean": {main: 1.4}, "tfidf_ridge": {main: 0.9}},
    }
    measured = [{"seed": 1, "split": "dev", "epoch": n, main: 1.2} for n in (1, 2)]
    drawn = drawn_curves(found, measured)
    assert "TF-IDF + ridge regression: 0.9<" in drawn
    assert "mean of the training set" not in drawn
