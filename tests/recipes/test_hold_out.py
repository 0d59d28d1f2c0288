"""Runs on few documents: which text they hold out, and that a resumed run keeps its rule."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertwright.config.run import StepRun
from bertwright.data.build import build_shards
from bertwright.data.shards import open_shards
from bertwright.errors import ConfigError
from bertwright.inference.model import load
from bertwright.models.catalogue import make_run, trainable
from bertwright.models.load import system_of
from bertwright.recipes.examine import read_run_config
from bertwright.recipes.learned import bert as held_out
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.small_runs import SPECIAL, WORDS, config_of, fails, train


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four documents of 70 sentences; the last ten of each have words of their own."""
    folder, draw = tmp_path_factory.mktemp("few"), random.Random(3)
    make_tokenizer([*SPECIAL, *WORDS, "end", "."]).save(folder / "tokenizer")
    text = []
    for _ in range(4):
        for number in range(70):
            words = draw.choices(WORDS, k=draw.randint(5, 9))
            text.append(" ".join([*words, "end"] if number >= 60 else words) + " .")
        text.append("")
    (folder / "corpus.txt").write_text("\n".join(text))
    build_shards([str(folder / "corpus.txt")], folder / "shards", folder / "tokenizer", workers=1)
    return folder / "shards"


def tokens_of(instances: Any) -> np.ndarray[Any, Any]:
    positions = np.arange(len(instances.lengths(0)))
    batch = instances.batch(0, positions)
    batch = batch.restored() if hasattr(batch, "restored") else batch
    return np.asarray(batch.inputs.ids)


@pytest.mark.parametrize("system", ["bert", "bert-ltr", "gpt", "awd-lstm", "elmo", "nnlm", "ngram"])
def test_nothing_held_out_is_trained_on(system: str, data: Path, tmp_path: Path) -> None:
    cls = trainable()[system]
    length = {"steps": 1} if issubclass(cls, StepRun) else {"epochs": 1.0}
    keys: dict[str, Any] = {"data": str(data), "out": str(tmp_path), **length}
    run = make_run(cls, {**keys, "validation": {"fraction": 0.14}})
    shards = open_shards(data)
    config = system_of(run).with_hold_out(run, shards)
    assert config.validation.hold_out == "ends"
    (end,) = [i for i, t in enumerate([*SPECIAL, *WORDS, "end", "."]) if t == "end"]
    if system_of(config).fit is None:
        trained = system_of(config).trained_on(config, shards)[0].instances
        assert not (tokens_of(trained) == end).any()
    found = system_of(config).evaluated_on(config, shards, "dev")
    assert (tokens_of(found) == end).sum() >= 30


@pytest.mark.parametrize("system", ["transformer", "memory-network"])
def test_of_others_nothing_changes(system: str, data: Path, tmp_path: Path) -> None:
    cls = trainable()[system]
    run = make_run(cls, {"data": str(data), "out": str(tmp_path), "epochs": 1.0})
    rule = system_of(run).with_hold_out(run, open_shards(data)).validation.hold_out
    assert rule == "documents"


@pytest.mark.slow
def test_the_rule_is_noted_and_a_resumed_run_keeps_it(data: Path, tmp_path: Path) -> None:
    config = config_of(data, tmp_path / "run", steps=4)
    train(config)
    assert read_run_config(tmp_path / "run").validation.hold_out == "ends"
    assert (
        "ends of 4 of 4" in json.loads((tmp_path / "run/environment.json").read_text())["held_out"]
    )
    train(config, resume=True)
    other = replace(config, validation=replace(config.validation, hold_out="documents"))
    fails(other, ConfigError, "validation.hold_out", resume=True)

    old = config_of(data, tmp_path / "old", steps=4)
    train(replace(old, validation=replace(old.validation, hold_out="documents")))
    path = tmp_path / "old" / "config.toml"
    path.write_text(path.read_text().replace('hold_out = "documents"\n', ""))
    train(old, resume=True)
    assert "hold_out" not in path.read_text()
    kept = read_run_config(tmp_path / "old")
    shards = open_shards(data)
    assert system_of(kept).evaluated_on(kept, shards, "dev").shards is shards  # type: ignore[union-attr]


def test_the_page_reads_what_is_held_out(data: Path, tmp_path: Path) -> None:
    train(config_of(data, tmp_path / "run", steps=4))
    config = read_run_config(tmp_path / "run")
    found = held_out.held_out(load(tmp_path / "run"), open_shards(data), config, None)
    assert {each.document for each in found} == {0, 1, 2, 3}
    assert all("end" in each.text for each in found)
    names = [(f"name {n}", "group") for n in range(4)]
    named = held_out.held_out(load(tmp_path / "run"), open_shards(data), config, names)
    assert {each.name for each in named} == {f"name {n}" for n in range(4)}
