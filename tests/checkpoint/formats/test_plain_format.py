"""The plain layout: a toy encoder comes in by one row of the catalogue."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertwright.checkpoint.checkpoint import load, make_learner, save
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.inspection import inspect
from bertwright.config.task import HeadConfig
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.catalogue import Row
from bertwright.models.system import System
from bertwright.nn.objective import Learner
from bertwright.nn.outputs.next_token import NextToken
from bertwright.tasks.texts.options import RegressionTask
from tests.checkpoint.conftest import assert_same, change, refused, rewrite
from tests.contract.toy import ToyConfig, ToyLstm, add_system, toy_spec


@dataclass(frozen=True)
class PlainConfig(ToyConfig):
    """Of this format: the toy of the contract may stand in the catalogue beside it."""


TABLE, BIAS = "encoder.embeddings.weight", "objectives.next_token.bias"
CONFIG = PlainConfig(vocab_size=37, hidden_size=6, num_hidden_layers=1)
TASKS = {"stars": RegressionTask(head=HeadConfig(layers="last", dropout=0.0))}


class Toy(ToyLstm):
    """With whole numbers among its weights, and numbers that no file has."""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        self.register_buffer("counts", torch.zeros(config.vocab_size, dtype=torch.int64))
        self.register_buffer("waves", torch.arange(5.0).sin(), persistent=False)


TOY = System(
    row=Row("toy", PlainConfig),
    encoder=Toy,
    spec=toy_spec,
    objectives={"next_token": lambda c, _: NextToken(c.hidden_size, c.vocab_size)},
)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    add_system(monkeypatch, TOY)


@pytest.fixture
def learner(toy: None) -> Learner:
    learner = make_learner(CONFIG, ["next_token"], TASKS)
    learner.encoder.counts += torch.arange(37)
    return learner


@pytest.fixture
def folder(tmp_path: Path, learner: Learner, tokenizer_folder: Path) -> Path:
    path = tmp_path / "toy"
    path.mkdir()
    save(path, learner, tokenizer_folder, "# A card\n", tasks=TASKS)
    return path


def test_bit_for_bit(folder: Path, learner: Learner) -> None:
    content = json.loads((folder / "config.json").read_text())
    assert (content["model_type"], content["hidden_size"]) == ("toy", 6)
    names = {name for name in learner.state_dict() if "stars" not in name}
    assert load_file(folder / "model.safetensors").keys() == names >= {"encoder.counts", BIAS}
    loaded = load(folder)
    assert loaded.config == CONFIG
    assert loaded.tasks == TASKS
    assert loaded.report.parts == ("encoder", "next_token", "stars")
    assert not loaded.report.started
    assert_same(loaded.learner, learner)
    assert torch.equal(loaded.learner.encoder.waves, learner.encoder.waves)


def test_a_new_head_and_one_that_is_not_requested(folder: Path) -> None:
    save(folder, make_learner(CONFIG, []), None, "")
    (folder / "task.json").unlink()
    (folder / "heads.safetensors").unlink()
    with pytest.raises(DataError, match="has no next_token head"):
        load(folder, ["next_token"])
    found = load(folder, ["next_token"], torch.Generator().manual_seed(1), tasks=TASKS)
    assert found.report.started == ("next_token", "stars")
    weight = found.learner.objectives["stars"].classifier.weight
    assert 0 < weight.abs().max() <= 0.04
    assert not any(parameter.is_meta for parameter in found.learner.parameters())


def test_missing_and_unknown_tensors(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    for lost in (TABLE, BIAS):
        rewrite(folder, {name: x for name, x in tensors.items() if name != lost})
        refused(folder, IntegrityError, f"lacks '{lost}'")
    rewrite(folder, {**tensors, "encoder.more": torch.zeros(1)})
    refused(folder, IntegrityError, r"'encoder\.more'.*toy")


def test_other_shapes_and_types(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(folder / "config.json", vocab_size=38)
    with pytest.raises(IntegrityError, match=r"has the shape .* asks for"):
        load(folder, [], tasks={})
    change(folder / "config.json", vocab_size=37)
    rewrite(folder, {**tensors, TABLE: torch.zeros(37, 6, dtype=torch.int8)})
    refused(folder, DataError, f"'{TABLE}' in .* is of type I8.*quantized")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_size": "6"}, "'hidden_size'"),
        ({"hidden_size": None}, "'hidden_size'"),
        ({"depth": 3}, "'depth'"),
        ({"model_type": "lstm"}, "is 'lstm'; expected one of .*bert, .*toy"),
    ],
)
def test_hostile_configurations(folder: Path, values: dict[str, Any], message: str) -> None:
    change(folder / "config.json", **values)
    refused(folder, DataError, message)


def test_a_configuration_of_no_format(tmp_path: Path) -> None:
    learner = make_learner(CONFIG, [])
    learner.encoder.config = replace(TASKS["stars"])
    with pytest.raises(ConfigError, match="no system has a RegressionTask"):
        save(tmp_path, learner, None, "")


def test_what_is_of_berts_alone(folder: Path, tmp_path: Path) -> None:
    for to in ("tensorflow", "sentence-transformers"):
        with pytest.raises(ConfigError, match=r"bert.*toy"):
            convert(folder, tmp_path / to, to)  # type: ignore[arg-type]


def test_convert_and_inspect(folder: Path, tmp_path: Path, learner: Learner) -> None:
    done = convert(folder, tmp_path / "copy")
    assert done.parts == ("encoder", "next_token", "stars")
    assert_same(load(tmp_path / "copy").learner, learner)
    found = inspect(tmp_path / "copy")
    assert found.loads, found.reason
    assert found.architecture == "toy"
    assert found.sizes == vars(CONFIG)
    assert found.parts["encoder"]["parameters"] == sum(
        x.numel() for x in learner.encoder.state_dict().values()
    )
