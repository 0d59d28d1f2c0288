"""The configuration of a training run, and BERT's part of it: values, errors, what is derived."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as some

from bertwright.checkpoint.inspection import inspect
from bertwright.checkpoint.opened import open_model
from bertwright.config import values
from bertwright.config.generation import GenerationConfig
from bertwright.config.run import (
    BatchConfig,
    CheckpointConfig,
    LogConfig,
    OptimizerConfig,
    ScheduleConfig,
    ValidationConfig,
)
from bertwright.config.task import HeadConfig
from bertwright.errors import ConfigError, DataError
from bertwright.models.bert.config import PRESETS, BertConfig, BertRun, LongPhaseConfig
from bertwright.models.catalogue import MODELS, completed, make_run, trainable


def make(**changes: Any) -> BertRun:
    length = {} if {"steps", "minutes", "epochs"} & changes.keys() else {"steps": 10}
    mapping = {"data": "d", "out": "o", **length, **changes}
    return make_run(BertRun, mapping)


@given(
    some.sampled_from(["steps", "epochs", "minutes"]),
    some.integers(1, 10**9),
    some.floats(1e-9, 1),
    some.sampled_from([None, "runs/a"]),
)
def test_there_and_back_through_toml(length: str, amount: int, rate: float, init: Any) -> None:
    import tomllib

    changes = {length: amount, "init": init, "optimizer": {"learning_rate": rate}}
    config = make(**changes)
    again = make_run(BertRun, tomllib.loads(values.to_toml(config)))
    assert again == config
    assert values.differing_keys(config, again) == []


@pytest.mark.parametrize("length", ["steps", "minutes", "epochs"])
def test_one_length(length: str) -> None:
    assert getattr(make(**{length: 2}), length) == 2
    for nothing in (0, -1):
        with pytest.raises(ConfigError, match=rf"{length}.* {nothing}"):
            make(**{length: nothing})


def test_no_length_and_two() -> None:
    with pytest.raises(ConfigError, match="--steps, --minutes, --epochs"):
        BertRun(data="no folder is looked for", out="o").require_length()
    with pytest.raises(ConfigError, match=r"--steps.*--epochs"):
        make(steps=1, epochs=1.0)


def test_sequences_must_fit() -> None:
    with pytest.raises(ConfigError, match=r"600 tokens .* 512 positions"):
        make(instances={"sequence_length": 600})
    with pytest.raises(ConfigError, match=r"128 tokens .* 64 positions"):
        make(architecture={"max_position_embeddings": 64})
    started = make(instances={"sequence_length": 600}, init="runs/a")
    assert started.longest_sequence == 600
    with pytest.raises(ConfigError, match=r"600 tokens.*runs/a.*512 positions"):
        started.require_positions(BertConfig())
    make(instances={"sequence_length": 600}, architecture={"max_position_embeddings": 600})
    with pytest.raises(ConfigError, match=r"micro_tokens.*200.*512 tokens"):
        make(long_phase={"fraction": 0.1}, batch={"micro_tokens": 200})
    assert make(long_phase={"fraction": 0.1}).longest_sequence == 512
    assert make().longest_sequence == 128


def test_no_such_model() -> None:
    with pytest.raises(ConfigError, match=r"'bert-giant'.*bert-tiny, bert-mini"):
        make(model="bert-giant")


@pytest.mark.parametrize("model", PRESETS)
def test_shape(model: str) -> None:
    published = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    assert make(model=model, architecture=published).model_config(1000) == BertConfig(
        **{**values.to_dict(PRESETS[model]), "vocab_size": 1000}
    )
    changed = make(model=model, architecture={"num_hidden_layers": 5, "hidden_dropout_prob": 0.0})
    shape = changed.model_config(99)
    assert (shape.num_hidden_layers, shape.hidden_dropout_prob, shape.vocab_size) == (5, 0.0, 99)
    assert shape.hidden_size == PRESETS[model].hidden_size


def test_a_preset_has_no_dropout_in_a_run() -> None:
    for run in (make(model="bert-tiny"), completed(BertRun("d", "o", model="bert-tiny", steps=1))):
        assert run.architecture == replace(
            PRESETS["bert-tiny"], hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
    assert make(model="none").architecture == make(model="bert-mini").architecture


def test_a_run_that_starts_from_a_model_has_its_architecture() -> None:
    assert completed(make(init="runs/a")).architecture is None
    with pytest.raises(ConfigError, match=r"architecture lacks .* runs/a"):
        make(init="runs/a", architecture={"hidden_size": 8})
    whole = values.to_dict(BertConfig(hidden_size=24))
    assert make(init="runs/a", architecture=whole).architecture == BertConfig(hidden_size=24)


@pytest.mark.parametrize("system", trainable())
def test_the_architecture_of_a_run_is_the_model_s_configuration(system: str) -> None:
    run = make_run(trainable()[system], {"data": "d", "out": "o"})
    assert type(run.architecture) is MODELS[system].config
    hint = get_type_hints(trainable()[system])["architecture"]
    assert hint == MODELS[system].config | None
    assert {*MODELS[system].fixed} < {each.name for each in fields(run.architecture)}


@pytest.mark.parametrize(
    ("section", "wrong"),
    [
        (OptimizerConfig, {"learning_rate": -1e-3}),
        (OptimizerConfig, {"learning_rate": float("nan")}),
        (OptimizerConfig, {"beta1": 1.0}),
        (OptimizerConfig, {"beta2": -0.1}),
        (OptimizerConfig, {"weight_decay": -0.01}),
        (OptimizerConfig, {"clip_norm": -1.0}),
        (ScheduleConfig, {"warmup": 1.0}),
        (BatchConfig, {"tokens": 0}),
        (BatchConfig, {"micro_tokens": 0}),
        (LongPhaseConfig, {"fraction": 1.0}),
        (LongPhaseConfig, {"sequence_length": 7}),
        (ValidationConfig, {"fraction": -0.1}),
        (ValidationConfig, {"tokens": 0}),
        (ValidationConfig, {"every_steps": 0}),
        (CheckpointConfig, {"keep": 0}),
        (CheckpointConfig, {"every_minutes": -1.0}),
        (LogConfig, {"every_seconds": -1.0}),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else value.__name__,
)
def test_what_is_out_of_range(section: type, wrong: dict[str, Any]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(ConfigError, match=f"{name}.* {value}"):
        section(**wrong)


@pytest.mark.parametrize(
    ("system", "rate"), [("nnlm", 2e-2), ("awd-lstm", 5e-3), ("gpt2", 1e-3)], ids=str
)
def test_a_system_has_its_own_rate_also_beside_other_keys(system: str, rate: float) -> None:
    given = {"data": "d", "out": "o", "steps": 10, "optimizer": {"clip_norm": 0.5}}
    run = make_run(trainable()[system], given)
    assert (run.optimizer.learning_rate, run.optimizer.clip_norm) == (rate, 0.5)


@pytest.mark.parametrize("system", trainable())
def test_sizes_are_written_as_they_are_read(system: str) -> None:
    """A 0 where a fraction is expected would be 0.0 after a run is resumed."""
    for name, config in MODELS[system].presets.items():
        mapping = values.to_dict(config)
        again = values.to_dict(values.from_dict(type(config), mapping))
        assert json.dumps(again) == json.dumps(mapping), name


@pytest.mark.parametrize("system", trainable())
def test_every_size_of_a_model_has_a_largest(system: str) -> None:
    preset = next(iter(MODELS[system].presets.values()))
    hints = get_type_hints(type(preset))
    numbers = [f.name for f in fields(preset) if hints[f.name] in (int, int | None)]
    assert "vocab_size" in numbers
    for name in numbers:
        for value in (-1, 10**9):
            with pytest.raises(ConfigError, match=name):
                replace(preset, **{name: value})


@pytest.mark.parametrize(
    ("system", "name", "wrong"),
    [
        ("elmo", "filters", ((1, 10**9),)),
        ("elmo", "filters", ((-1, 2),)),
        ("elmo", "filters", ((1, 8),) * 1000),
        ("elmo", "n_layers", 10**6),
        ("elmo", "n_highway", 10**6),
        ("memory-network", "hops", 10**6),
        ("ngram", "ngrams", (-1, 2, 3)),
        ("ngram", "ngrams", (1,) * 10),
        ("awd-lstm", "num_hidden_layers", 1001),
    ],
)
def test_sizes_of_a_config_json_are_checked(
    system: str, name: str, wrong: Any, tmp_path: Path
) -> None:
    preset = next(iter(MODELS[system].presets.values()))
    content = {"model_type": system, **values.to_dict(preset), name: wrong}
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=name):
        _ = open_model(tmp_path).config
    assert name in (inspect(tmp_path).reason or "")


def test_largest_sequences_are_bounded() -> None:
    for section in ({"sequence_length": 10**9}, {"sequence_length": -1}):
        with pytest.raises(ConfigError, match="sequence_length"):
            make(instances=section)
    with pytest.raises(ConfigError, match="network_size"):
        HeadConfig(network_size=10**9)
    with pytest.raises(ConfigError, match="beam"):
        GenerationConfig(beam=10**9)
