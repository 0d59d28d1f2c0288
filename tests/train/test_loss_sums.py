"""Sums of losses, and the window between two lines of the log."""

from __future__ import annotations

import json
from dataclasses import asdict

import torch

from bertwright.nn.objective import Loss
from bertwright.train.loss_sums import LossSums, Window, means

NAMES = ["masked_lm", "next_sentence"]


def loss(total: float, count: int, correct: int) -> Loss:
    return Loss(torch.tensor(total, requires_grad=True), count, torch.tensor(correct))


def test_sums_of_micro_batches() -> None:
    sums = LossSums()
    sums.add("masked_lm", loss(10.0, 4, 1))
    sums.add("masked_lm", loss(2.5, 1, 1))
    sums.add("next_sentence", loss(3.0, 2, 0))
    numbers = sums.numbers(NAMES)
    assert numbers == [12.5, 5, 5, 2, 3.0, 2, 2, 0]
    assert means(NAMES, numbers) == {
        "loss": 4.0,
        "masked_lm.loss": 2.5,
        "masked_lm.accuracy": 0.4,
        "next_sentence.loss": 1.5,
        "next_sentence.accuracy": 0.0,
    }
    assert not sums.totals["masked_lm"].requires_grad


def test_what_had_nothing_to_judge_is_left_out() -> None:
    assert means(["masked_lm"], LossSums().numbers(["masked_lm"])) == {"loss": 0.0}
    found = means(["first", "second"], [0.0, 0.0, 0.0, 0.0, 6.0, 2.0, 2.0, 1.0])
    assert found == {"loss": 3.0, "second.loss": 3.0, "second.accuracy": 0.5}


def test_numbers_are_neither_right_nor_wrong() -> None:
    sums = LossSums()
    sums.add("classes", loss(2.0, 4, 3))
    sums.add("number", Loss(torch.tensor(3.0), 2, None))
    numbers = [2 * each for each in sums.numbers(["classes", "number"])]  # of two steps
    assert means(["classes", "number"], numbers) == {
        "loss": 2.0,
        "classes.loss": 0.5,
        "classes.accuracy": 0.75,
        "number.loss": 1.5,
    }


def test_a_window_joins_steps_and_survives_json() -> None:
    window = Window(step=5, tokens=100, seconds=2.0)
    window.join([1.0, 2.0, 3.0], 1e9, 0.5, 1e-3)
    window.join([0.1, 1.0, 2.0], 2e9, 0.25, 2e-3)
    assert window.sums == [1.1, 3.0, 5.0]
    assert (window.steps, window.flops, window.gradient_norm) == (2, 3e9, 0.75)
    assert window.learning_rate == 2e-3
    assert Window(**json.loads(json.dumps(asdict(window)))) == window
