"""The packed LSTM reads each sequence as if it were alone."""

from __future__ import annotations

import pytest
import torch

from bertwright.nn.recurrent import BiLstm

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
