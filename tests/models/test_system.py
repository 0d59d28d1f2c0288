"""Which keys of an architecture a run that goes on from a checkpoint may change; `config.json`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bertwright.errors import ConfigError
from bertwright.models.awd_lstm.config import AwdLstmConfig, AwdLstmRun
from bertwright.models.bert.config import BertConfig, BertRun
from bertwright.models.catalogue import MODELS, row_of
from bertwright.models.elmo.config import ElmoConfig, ElmoRun
from bertwright.models.load import load
from bertwright.models.system import keep_architecture
from bertwright.models.transformer.config import TransformerConfig, TransformerRun

PLACE = {"data": "x", "out": "y"}


def test_settings_without_weights_may_change() -> None:
    for run, config, wanted in (
        (TransformerRun, TransformerConfig(), {"label_smoothing": 0.3}),
        (AwdLstmRun, AwdLstmConfig(), {"activation_penalty": 3.0, "temporal_penalty": 0.5}),
        (ElmoRun, ElmoConfig(), {"negative_samples": 7, "hidden_dropout_prob": 0.3}),
    ):
        changed = replace(config, **wanted)
        kept = keep_architecture(run(**PLACE, architecture=changed), config, Path("folder"))
        assert kept == changed


def test_sizes_may_not() -> None:
    run = TransformerRun(**PLACE, architecture=TransformerConfig(hidden_size=64))
    with pytest.raises(ConfigError, match=r"architecture\.hidden_size is 64"):
        keep_architecture(run, TransformerConfig(hidden_size=32), Path("folder"))


def test_without_an_architecture_it_is_that_of_the_checkpoint_with_the_settings_of_runs() -> None:
    for run, config in ((AwdLstmRun, AwdLstmConfig(weight_dropout=0.25)), (BertRun, BertConfig())):
        kept = keep_architecture(run(**PLACE, init="runs/a"), config, Path("folder"))
        assert kept == replace(config, **row_of(run).settings)


@pytest.mark.parametrize("system", sorted(MODELS.keys() - {"model2vec"}))
def test_a_configuration_is_what_its_config_json_says(system: str) -> None:
    """Also with so few layers that no pattern of layers is seen in them. (The files of a model2vec
    folder are read with its tensors.)
    """
    layout = load(system).names
    config = layout.config()
    few = [{"num_hidden_layers": n} for n in (1, 2)] if hasattr(config, "num_hidden_layers") else []
    for changes in ({}, *few):
        stored = replace(config, **changes)
        content = json.loads(json.dumps(layout.write_config(stored, frozenset())))
        assert layout.read_config(content, Path("config.json")) == stored
