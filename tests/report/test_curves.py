"""Curves over seeds."""

from __future__ import annotations

from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("main", "baselines", "best", "worse"),
    [
        ("accuracy", {"majority": 0.509, "tfidf": 0.822}, "logistic regression: 82.2%", "frequent"),
        (
            "mean_absolute_error",
            {"mean": 1.4, "tfidf_ridge": 0.9},
            "ridge regression: 0.9<",
            "mean of",
        ),
    ],
)
def test_the_best_baseline_is_a_level(
    main: str, baselines: dict[str, float], best: str, worse: str
) -> None:
    found = topics() | {"main": main, "baselines": {n: {main: x} for n, x in baselines.items()}}
    measured = [{"seed": 1, "split": "dev", "epoch": n, main: 0.8} for n in (1, 2)]
    drawn = drawn_curves(found, measured)
    assert best in drawn
    assert worse not in drawn


def test_lines_at_one_height_are_drawn_from_zero() -> None:
    found = topics() | {"baselines": {}}
    flat = [{"seed": 1, "split": "dev", "epoch": n, "accuracy": 1.0} for n in (1, 2)]
    drawn = drawn_curves(found, flat)
    assert ">100%<" in drawn
    assert ">0%<" in drawn
    assert ">200%<" not in drawn


def test_nothing_measured_is_nothing_drawn() -> None:
    assert drawn_curves(topics(), []) == ""
