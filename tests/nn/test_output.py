"""The loss over a vocabulary is `F.cross_entropy`, and so is its gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bertwright.nn import output
from bertwright.nn.output import vocabulary_loss

ROWS, HIDDEN, VOCABULARY = 11, 7, 23


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    chance = torch.Generator().manual_seed(2)
    x, weight, bias = (
        torch.randn(shape, dtype=dtype, generator=chance).requires_grad_()
        for shape in ((ROWS, HIDDEN), (VOCABULARY, HIDDEN), (VOCABULARY,))
    )
    return x, weight, bias, torch.randint(0, VOCABULARY, (ROWS,), generator=chance)


@pytest.mark.parametrize("block", [1, 3 * VOCABULARY, 1 << 21])
@pytest.mark.parametrize("scale", [1.0, 0.37])
def test_value_and_gradients(monkeypatch: pytest.MonkeyPatch, block: int, scale: float) -> None:
    monkeypatch.setattr(output, "BLOCK", block)
    x, weight, bias, labels = inputs(torch.float32)
    loss = vocabulary_loss(x, weight, bias, labels)
    (loss.total * scale).backward()
    ours = [part.grad.clone() for part in (x, weight, bias) if part.grad is not None]
    for part in (x, weight, bias):
        part.grad = None
    logits = F.linear(x, weight, bias)
    expected = F.cross_entropy(logits, labels, reduction="sum")
    (expected * scale).backward()
    torch.testing.assert_close(loss.total, expected, rtol=1e-6, atol=1e-5)
    assert loss.correct == (logits.argmax(1) == labels).sum()
    for mine, part in zip(ours, (x, weight, bias), strict=True):
        torch.testing.assert_close(mine, part.grad, rtol=0, atol=2e-6)


def test_huge_logits_stay_finite() -> None:
    x, weight, bias, labels = inputs(torch.float32)
    loss = vocabulary_loss(x * 1e4, weight, bias, labels)
    expected = F.cross_entropy(F.linear(x * 1e4, weight, bias), labels, reduction="sum")
    torch.testing.assert_close(loss.total, expected)
    assert torch.isfinite(loss.total)


def test_no_rows_cost_nothing() -> None:
    x, weight, bias, labels = inputs(torch.float32)
    loss = vocabulary_loss(x[:0], weight, bias, labels[:0])
    loss.total.backward()
    assert loss.total == 0
    assert loss.correct == 0
    assert weight.grad is not None
    assert weight.grad.abs().max() == 0


def test_without_gradients() -> None:
    x, weight, bias, labels = inputs(torch.float32)
    with torch.no_grad():
        loss = vocabulary_loss(x, weight, bias, labels)
    expected = F.cross_entropy(F.linear(x, weight, bias), labels, reduction="sum")
    torch.testing.assert_close(loss.total, expected.detach())


def test_bfloat16_is_near() -> None:
    x, weight, bias, labels = inputs(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss = vocabulary_loss(x.bfloat16(), weight, bias, labels)
    loss.total.backward()
    expected = F.cross_entropy(F.linear(x, weight, bias), labels, reduction="sum")
    assert loss.total.dtype == torch.float32
    assert abs(loss.total / expected - 1) < 0.02
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32


def test_the_loss_of_a_bfloat16_model_is_summed_in_float32() -> None:
    x, weight, bias, labels = inputs(torch.bfloat16)
    loss = vocabulary_loss(x, weight, bias, labels)
    loss.total.backward()
    logits = F.linear(x, weight, bias).float()
    assert loss.total.dtype == torch.float32
    torch.testing.assert_close(loss.total, F.cross_entropy(logits, labels, reduction="sum"))
    assert bias.grad is not None
    assert bias.grad.dtype == torch.bfloat16


def test_second_derivatives() -> None:
    x, weight, bias, labels = inputs(torch.float64)
    assert torch.autograd.gradgradcheck(
        lambda *parts: vocabulary_loss(*parts, labels).total, (x, weight, bias)
    )
    x.requires_grad_(False)
    assert torch.autograd.gradgradcheck(
        lambda *parts: vocabulary_loss(x, *parts, labels).total, (weight, bias)
    )
