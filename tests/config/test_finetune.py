"""What cannot be trained is said before anything is read."""

from __future__ import annotations

from typing import Any

import pytest

from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.errors import ConfigError
from bertwright.tasks.tagging.options import TaggingOptions
from tests.raising import assert_names


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"seed": -1}, ["seed", "-1", "0 to 4294967295"]),
        ({"seed": 2**32}, ["seed", "4294967296", "0 to 4294967295"]),
        ({"seeds": 0}, ["seeds", "0", "1"]),
        ({"patience": 0}, ["patience", "0", "1"]),
        ({"hidden_size": -1}, ["hidden_size", "-1", "0"]),
        ({"epochs": float("inf")}, ["epochs", "inf", "3.4e+38"]),
        ({"epochs": 0.0}, ["epochs", "0.0"]),
        ({"warmup": 1.0}, ["warmup", "1.0", "fraction"]),
        ({"dropout": float("nan")}, ["dropout", "nan", "fraction"]),
        ({"transfer": "top-0"}, ["'top-0'", "auto, finetune, features, gradual"]),
        ({"layers": "mix", "transfer": "finetune"}, ["--transfer features"]),
        ({"transfer": "features", "layer_decay": 0.9}, ["layer_decay"]),
    ],
)
def test_settings_that_make_no_run(given: dict[str, Any], names: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        FinetuneConfig("model", "out", **given)
    assert_names(caught.value, *names)


def test_files_that_make_no_task() -> None:
    with pytest.raises(ConfigError, match=r"weight.*0\.0"):
        TaskFilesConfig("train.tsv", weight=0.0)
    with pytest.raises(ConfigError, match="dev_label"):
        TaskFilesConfig("train.tsv", dev_label="3")
    with pytest.raises(ConfigError, match=r"label.*2 columns"):
        TaskFilesConfig("train.tsv", label=("a", "b")).check_with(TaggingOptions())
    for one in ("a", ("a",), ()):  # an option of several words that has one, or none
        assert TaskFilesConfig("train.tsv", label=one, dev_label=()).label == one
