"""What cannot be trained is said before anything is read."""

from __future__ import annotations

from typing import Any

import pytest

from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seed": -1}, "seed is -1; expected 0 to 4294967295"),
        ({"seed": 2**32}, "seed is 4294967296; expected 0 to 4294967295"),
        ({"seeds": 0}, "seeds is 0; expected 1 or more"),
        ({"patience": 0}, "patience is 0; expected 1 or more"),
        ({"hidden_size": -1}, "hidden_size is -1; expected 0 or more"),
        ({"epochs": float("inf")}, "epochs is inf; expected more than 0, up to 3.4e+38"),
        ({"epochs": 0.0}, "epochs is 0.0; expected more than 0"),
        ({"warmup": 1.0}, "warmup is 1.0; expected a fraction from 0 to less than 1"),
        ({"dropout": float("nan")}, "dropout is nan; expected a fraction from 0 to less than 1"),
        (
            {"transfer": "top-0"},
            "no transfer 'top-0'; expected auto, finetune, features, gradual, or",
        ),
        ({"layers": "mix", "transfer": "finetune"}, "pass --transfer features"),
        ({"transfer": "features", "layer_decay": 0.9}, "is for layers that are trained"),
    ],
)
def test_settings_that_make_no_run(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        FinetuneConfig("model", "out", **given)
    assert said in str(caught.value)


def test_files_that_make_no_task() -> None:
    with pytest.raises(ConfigError, match=r"weight.*0\.0"):
        TaskFilesConfig("train.tsv", weight=0.0)
    with pytest.raises(ConfigError, match="dev_label"):
        TaskFilesConfig("train.tsv", dev_label="3")
    with pytest.raises(ConfigError, match="label names 2 columns"):
        TaskFilesConfig("train.tsv", label=("a", "b"))
    for one in ("a", ("a",), ()):  # an option of several words that has one, or none
        assert TaskFilesConfig("train.tsv", label=one, dev_label=()).label == one
