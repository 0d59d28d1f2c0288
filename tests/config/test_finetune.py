"""What cannot be trained is said before anything is read."""

from __future__ import annotations

from typing import Any

import pytest

from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.config.ranges import OutOfRange
from bertwright.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seed": -1}, "seed is -1; expected 0 to 4294967295"),
        ({"seed": 2**32}, "seed is 4294967296; expected 0 to 4294967295"),
        ({"patience": 0}, "patience is 0; expected 1 or more"),
        ({"epochs": float("inf")}, "epochs is inf; expected more than 0, up to 3.4e+38"),
        ({"dropout": float("nan")}, "dropout is nan; expected a fraction from 0 to less than 1"),
    ],
)
def test_numbers_out_of_range(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OutOfRange) as caught:
        FinetuneConfig("model", "out", **given)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"layers": "mix"}, "pass --transfer features"),
        (
            {"transfer": "features", "layer_decay": 0.9},
            "layer_decay is for layers that are trained",
        ),
    ],
)
def test_what_would_change_nothing(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        FinetuneConfig("model", "out", **given)


def test_a_weight_of_nothing() -> None:
    with pytest.raises(OutOfRange, match=r"weight is 0\.0; expected more than 0"):
        TaskFilesConfig("train.tsv", weight=0.0)
