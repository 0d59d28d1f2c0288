"""A model that is evaluated on the files of another direction."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertwright.errors import DataError
from bertwright.inference.model import load
from bertwright.inference.translation.translate import require_direction
from tests.inference.translation.sample import make

SOURCES = ["ba be", "", "do ba ba", "ba " * 99]
TARGETS = ["ga ga", "", "ga li", "ga"]


def test_a_model_of_the_other_direction_is_refused(tmp_path: Path) -> None:
    runner = load(make(tmp_path)).runner
    bias = runner.learner.objectives["translation"].bias.data
    bias[runner.tokenizer.encode_bare_ids(["ga li"])[0]] = 9.0  # it writes these
    require_direction(runner, SOURCES, TARGETS)
    with pytest.raises(DataError, match="direction"):
        require_direction(runner, TARGETS, SOURCES)
    require_direction(runner, SOURCES[1::2], TARGETS[1::2])  # nothing that it could be seen by
