"""Every system of the catalogue and a toy beside them: a tiny run of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.config import values
from bertwright.config.run import RunConfig
from bertwright.config.systems import RUN_CONFIGS
from bertwright.data.shards import Shards, open_shards
from bertwright.objectives.objective import Learner
from bertwright.recipes import pretrain as pretraining
from bertwright.recipes.finetune import run as finetuning
from bertwright.recipes.pretrain import make_learner
from bertwright.recipes.systems import SYSTEMS, System
from tests.contract import toy
from tests.recipes.sample import build_data, mapping_of, train

RUNS: dict[str, dict[str, Any]] = {
    "bert": {},
    toy.NAME: {"architecture": None, "instances": None, "model": "toy"},
}
"""What a tiny run of each system has beside `tests/recipes/sample.py`; None: it has no such key."""
STEPS = 12


def mapping(system: str, data: Path, out: Path, **over: Any) -> dict[str, Any]:
    """A run of a system, as a configuration file has it."""
    made = {**mapping_of(data, out, steps=STEPS), **RUNS[system], **over}
    return {key: value for key, value in made.items() if value is not None}


def config_of(system: str, data: Path, out: Path, **over: Any) -> RunConfig:
    """The same as a configuration."""
    return values.from_dict(RUN_CONFIGS[system], mapping(system, data, out, **over))


@pytest.fixture(autouse=True, scope="session")
def with_the_toy() -> Iterator[None]:
    """The toy is in every catalogue."""
    with pytest.MonkeyPatch.context() as patch:
        toy.add_toy(patch)
        for recipe in (pretraining, finetuning):
            patch.setattr(recipe, "choose_precision", lambda *_: ("fp32", 1e11))
        yield


@pytest.fixture(scope="session", params=[*SYSTEMS, toy.NAME])
def name(request: pytest.FixtureRequest) -> str:
    """Of a system."""
    assert request.param in RUNS, f"tests/contract/conftest.py has no tiny run of {request.param}"
    return str(request.param)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of a few thousand tokens."""
    return build_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def shards(data: Path) -> Shards:
    """The same, opened."""
    return open_shards(data)


@pytest.fixture(scope="session")
def system(name: str) -> System:
    """The system."""
    return SYSTEMS[name]


@pytest.fixture(scope="session")
def config(name: str, data: Path) -> RunConfig:
    """A tiny run of it without dropout."""
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    made = mapping(name, data, data / "run")
    if "architecture" in made:
        made["architecture"] = {**made["architecture"], **off}
    return values.from_dict(RUN_CONFIGS[name], made)


@pytest.fixture
def learner(config: RunConfig, shards: Shards) -> Learner:
    """Its learner in float64, every parameter random: zeros would hide a mistake."""
    made = make_learner(config, shards).double()
    generator = torch.Generator().manual_seed(1)
    for parameter in made.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return made


@pytest.fixture(scope="session")
def run(name: str, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of it."""
    out = tmp_path_factory.mktemp(name) / "run"
    train(config_of(name, data, out, checkpoint={"every_steps": 5, "keep": 9}))  # type: ignore[arg-type]
    return out
