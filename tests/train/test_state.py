"""The position of a run and AdamW's moments, written and read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from bertwright.config.run import OptimizerConfig
from bertwright.data.loading.phases import DataPosition
from bertwright.errors import IntegrityError
from bertwright.train.distributed import Ranks
from bertwright.train.loss_sums import Window
from bertwright.train.optim import Optimizers, make_optimizers
from bertwright.train.state import STATE, TENSORS, Position, encode_state, load_state

ALONE = Ranks(0, 1, torch.device("cpu"))
POSITION = Position(
    step=7,
    tokens=1792,
    seconds=1.5,
    data=DataPosition(1, 2, 3),
    validated=6,
    records=4,
    window=Window(step=6, tokens=1536, seconds=1.25, steps=1, sums=[0.1, 2.0, 3.0], flops=1e9),
)


def make(size: int = 16, matrices: str = "muon") -> tuple[nn.Module, Optimizers]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(16, size), nn.LayerNorm(size))
    return module, make_optimizers(module, OptimizerConfig(matrices=matrices))


def step(module: nn.Module, optimizers: Optimizers) -> None:
    optimizers.zero_grad()
    module(torch.arange(32.0).view(2, 16).sin()).cos().sum().backward()
    optimizers.step()


@pytest.fixture(params=["adamw", "muon"])
def matrices(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def saved(tmp_path: Path, matrices: str) -> Path:
    module, optimizer = make(matrices=matrices)
    step(module, optimizer)
    step(module, optimizer)
    for name, content in encode_state(POSITION, module, optimizer, ALONE).items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_there_and_back(saved: Path, matrices: str) -> None:
    whole, first = make(matrices=matrices)
    step(whole, first)
    step(whole, first)
    module, optimizer = make(matrices=matrices)
    assert load_state(saved, module, optimizer) == POSITION
    module.load_state_dict(whole.state_dict())
    step(whole, first)
    step(module, optimizer)
    for ours, theirs in zip(module.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    for (name, p), other in zip(module.named_parameters(), whole.parameters(), strict=True):
        assert optimizer.state_of(p)
        for moment, value in optimizer.state_of(p).items():
            assert torch.equal(value, first.state_of(other)[moment]), (name, moment)


def test_before_the_first_step(tmp_path: Path) -> None:
    module, optimizer = make()
    for name, content in encode_state(Position(), module, optimizer, ALONE).items():
        (tmp_path / name).write_bytes(content)
    assert load_state(tmp_path, module, optimizer) == Position()
    assert not any(optimizer.state_of(p) for p in module.parameters())


@pytest.mark.parametrize("name", [STATE, TENSORS])
def test_a_missing_file(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(IntegrityError, match=rf"{name}.*--init"):
        load_state(saved, *make())


@pytest.mark.parametrize(
    ("name", "content"), [(STATE, b"{"), (STATE, b"{}"), (STATE, b"[]"), (TENSORS, b"\0" * 20)]
)
def test_a_damaged_file(saved: Path, name: str, content: bytes) -> None:
    (saved / name).write_bytes(content)
    with pytest.raises(IntegrityError, match=r"trainer.*damaged"):
        load_state(saved, *make())


def test_of_other_weights(saved: Path, matrices: str) -> None:
    with pytest.raises(IntegrityError, match=r"0\.weight"):
        load_state(saved, *make(17, matrices))
    content = json.loads((saved / STATE).read_text())
    content["moments"]["pooler.weight"] = ["step"]
    (saved / STATE).write_text(json.dumps(content))
    with pytest.raises(IntegrityError, match=r"pooler\.weight"):
        load_state(saved, *make(matrices=matrices))
