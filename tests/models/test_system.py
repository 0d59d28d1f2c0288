"""Which keys of an architecture a run that goes on from a checkpoint may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertwright.errors import ConfigError
from bertwright.models.awd_lstm.config import AwdLstmChanges, AwdLstmConfig, AwdLstmRun
from bertwright.models.elmo.config import ElmoChanges, ElmoConfig, ElmoRun
from bertwright.models.system import keep_architecture
from bertwright.models.transformer.config import (
    TransformerChanges,
    TransformerConfig,
    TransformerRun,
)

PLACE = {"data": "x", "out": "y"}


def test_settings_without_weights_may_change() -> None:
    for run, config, wanted in (
        (TransformerRun, TransformerConfig(), TransformerChanges(label_smoothing=0.3)),
        (AwdLstmRun, AwdLstmConfig(), AwdLstmChanges(activation_penalty=3.0, temporal_penalty=0.5)),
        (ElmoRun, ElmoConfig(), ElmoChanges(negative_samples=7, hidden_dropout_prob=0.3)),
    ):
        kept = keep_architecture(run(**PLACE, architecture=wanted), config, Path("folder"))
        assert {key: getattr(kept, key) for key in wanted.given()} == wanted.given()


def test_sizes_may_not() -> None:
    run = TransformerRun(**PLACE, architecture=TransformerChanges(hidden_size=64))
    with pytest.raises(ConfigError, match=r"architecture\.hidden_size is 64"):
        keep_architecture(run, TransformerConfig(hidden_size=32), Path("folder"))
