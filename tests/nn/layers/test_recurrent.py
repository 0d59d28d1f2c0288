"""The packed LSTM reads each sequence as if it were alone."""

from __future__ import annotations

import pytest
import torch

from bertwright.nn.layers.recurrent import Direction, Lstm

COUNTS = [3, 0, 5, 1, 3]


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
@pytest.mark.parametrize("projection", [0, 3])
@pytest.mark.parametrize("counts", [COUNTS, [4, 4, 4], [1, 1], [6]])
def test_states_and_gradients_are_pytorchs_one_by_one(
    direction: Direction, projection: int, counts: list[int]
) -> None:
    torch.manual_seed(1)
    network = Lstm(7, 4, direction, projection).double()
    x = torch.randn(sum(counts), 7, dtype=torch.float64, requires_grad=True)
    wanted = [x, *network.parameters()]
    states = network(x, counts)
    given = torch.randn(states.shape, dtype=torch.float64)
    found = torch.autograd.grad((states * given).sum(), wanted)
    turn = (lambda part: part.flip(0)) if direction == "backward" else (lambda part: part)
    parts = [turn(network.lstm(turn(p)[:, None])[0][:, 0]) for p in x.split(counts) if len(p)]
    torch.testing.assert_close(states, torch.cat(parts))
    expected = torch.autograd.grad((torch.cat(parts) * given).sum(), wanted)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(
    ("direction", "seen"),
    [("forward", [3, 4, 5]), ("backward", [5, 6, 7]), ("both", [3, 4, 5, 6, 7])],
)
def test_a_row_sees_its_side_alone(direction: Direction, seen: list[int]) -> None:
    x = torch.randn(sum(COUNTS), 7, requires_grad=True)
    Lstm(7, 4, direction)(x, COUNTS)[5].sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum(1).nonzero()[:, 0].tolist() == seen


def test_float32_under_autocast() -> None:
    network = Lstm(7, 4, "both")
    x = torch.randn(sum(COUNTS), 7).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = network(x, COUNTS)
    assert states.dtype == torch.float32
    torch.testing.assert_close(states, network(x.float(), COUNTS))
    assert network.bfloat16()(x, COUNTS).dtype == torch.float32  # for what comes behind it
    assert network(torch.zeros(0, 7), [0]).shape == (0, 8)
