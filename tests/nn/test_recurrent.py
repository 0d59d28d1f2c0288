"""The packed LSTM reads each sequence as if it were alone."""

from __future__ import annotations

import pytest
import torch

from bertwright.nn.recurrent import BiLstm, Lstm

COUNTS = [3, 0, 5, 1, 3]


@pytest.fixture
def network() -> BiLstm:
    torch.manual_seed(0)
    return BiLstm(7, 4)


def test_against_one_by_one(network: BiLstm) -> None:
    x = torch.randn(sum(COUNTS), 7)
    states = network(x, COUNTS)
    assert states.shape == (sum(COUNTS), 8)
    parts = [network.lstm(part[:, None])[0][:, 0] for part in x.split(COUNTS) if len(part)]
    torch.testing.assert_close(states, torch.cat(parts))


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
@pytest.mark.parametrize("counts", [COUNTS, [4, 4, 4], [1, 1], [6]])
def test_gradients_are_pytorchs(direction: str, counts: list[int]) -> None:
    torch.manual_seed(1)
    network = Lstm(7, 4, direction).double()
    x = torch.randn(sum(counts), 7, dtype=torch.float64, requires_grad=True)
    given = torch.randn(sum(counts), network(x, counts).shape[1], dtype=torch.float64)
    wanted = [x, *network.parameters()]
    found = torch.autograd.grad((network(x, counts) * given).sum(), wanted)
    turn = (lambda part: part.flip(0)) if direction == "backward" else (lambda part: part)
    parts = [turn(network.lstm(turn(p)[:, None])[0][:, 0]) for p in x.split(counts) if len(p)]
    expected = torch.autograd.grad((torch.cat(parts) * given).sum(), wanted)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_gradient_reaches_both_ends(network: BiLstm) -> None:
    x = torch.randn(sum(COUNTS), 7, requires_grad=True)
    network(x, COUNTS)[4].sum().backward()  # a word of the third sequence
    touched = x.grad.abs().sum(1) > 0
    assert touched.tolist() == [False] * 3 + [True] * 5 + [False] * 4


def test_float32_under_autocast(network: BiLstm) -> None:
    x = torch.randn(sum(COUNTS), 7).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = network(x, COUNTS)
    assert states.dtype == torch.float32
    torch.testing.assert_close(states, network(x.float(), COUNTS))
    assert network.bfloat16()(x, COUNTS).dtype == torch.float32  # for what comes behind it


def test_nothing_to_read(network: BiLstm) -> None:
    assert network(torch.zeros(0, 7), [0]).shape == (0, 8)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_one_direction(direction: str) -> None:
    torch.manual_seed(0)
    network = Lstm(7, 4, direction, layers=2, projection=3)
    x = torch.randn(sum(COUNTS), 7)
    turn = (lambda part: part.flip(0)) if direction == "backward" else (lambda part: part)
    parts = [
        turn(network.lstm(turn(part)[:, None])[0][:, 0]) for part in x.split(COUNTS) if len(part)
    ]
    torch.testing.assert_close(network(x, COUNTS), torch.cat(parts))
    assert network(x, COUNTS).shape == (sum(COUNTS), 3)


def test_a_row_sees_its_side_alone() -> None:
    for direction, seen in (("forward", [3, 4, 5]), ("backward", [5, 6, 7])):
        x = torch.randn(sum(COUNTS), 7, requires_grad=True)
        Lstm(7, 4, direction)(x, COUNTS)[5].sum().backward()
        assert x.grad.abs().sum(1).nonzero()[:, 0].tolist() == seen
