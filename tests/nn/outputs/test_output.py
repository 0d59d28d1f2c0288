"""The loss over a vocabulary is `F.cross_entropy`, and so is its gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bertwright.nn.outputs import output
from bertwright.nn.outputs.output import log_uniform, sampled_loss, vocabulary_loss

ROWS, HIDDEN, VOCABULARY = 11, 7, 23


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    chance = torch.Generator().manual_seed(2)
    x, weight, bias = (
        torch.randn(shape, dtype=dtype, generator=chance).requires_grad_()
        for shape in ((ROWS, HIDDEN), (VOCABULARY, HIDDEN), (VOCABULARY,))
    )
    return x, weight, bias, torch.randint(0, VOCABULARY, (ROWS,), generator=chance)


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("block", [1, 3 * VOCABULARY, 1 << 21])
@pytest.mark.parametrize(("scale", "smoothing"), [(1.0, 0.0), (0.37, 0.0), (0.37, 0.2)])
def test_value_and_gradients(
    monkeypatch: pytest.MonkeyPatch, block: int, scale: float, smoothing: float, on_gpu: bool
) -> None:
    monkeypatch.setattr(output, "BLOCK", block)
    monkeypatch.setattr(output, "BLOCK_CUDA", block)
    monkeypatch.setattr(output, "is_on_gpu", lambda x: on_gpu)
    x, weight, bias, labels = inputs(torch.float32)
    loss = vocabulary_loss(x, weight, bias, labels, smoothing)
    (loss.total * scale).backward()
    ours = [part.grad.clone() for part in (x, weight, bias) if part.grad is not None]
    for part in (x, weight, bias):
        part.grad = None
    logits = F.linear(x, weight, bias)
    expected = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    (expected * scale).backward()
    torch.testing.assert_close(loss.total, expected, rtol=1e-6, atol=1e-5)
    with torch.no_grad():
        again = vocabulary_loss(x, weight, bias, labels, smoothing).total
    assert torch.equal(again, loss.total.detach())
    assert loss.correct == (logits.argmax(1) == labels).sum()
    for mine, part in zip(ours, (x, weight, bias), strict=True):
        torch.testing.assert_close(mine, part.grad, rtol=0, atol=2e-6)


def test_huge_logits_stay_finite() -> None:
    x, weight, bias, labels = inputs(torch.float32)
    loss = vocabulary_loss(x * 1e4, weight, bias, labels)
    expected = F.cross_entropy(F.linear(x * 1e4, weight, bias), labels, reduction="sum")
    assert torch.isfinite(expected)
    torch.testing.assert_close(loss.total, expected)


def test_no_rows_cost_nothing() -> None:
    x, weight, bias, labels = inputs(torch.float32)
    loss = vocabulary_loss(x[:0], weight, bias, labels[:0])
    loss.total.backward()
    assert loss.total == 0
    assert loss.correct == 0
    assert weight.grad is not None
    assert weight.grad.abs().max() == 0


def test_rows_after_those_with_labels_are_padding() -> None:
    x, weight, bias, labels = inputs(torch.float64)
    found = []
    for rows in (x, torch.cat([x, x[:4]])):
        loss = vocabulary_loss(rows, weight, bias, labels, smoothing=0.2)
        found.append([loss.total, *torch.autograd.grad(loss.total, (x, weight, bias))])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("rows", [torch.float32, torch.bfloat16])
def test_logits_are_bfloat16_under_autocast(rows: torch.dtype) -> None:
    """The rows of a recurrence are float32."""
    x, weight, bias, labels = inputs(torch.float32)
    whole = vocabulary_loss(x, weight, bias, labels).total
    expected = torch.autograd.grad(whole, (x, weight, bias))
    with torch.autocast("cpu", torch.bfloat16):
        total = vocabulary_loss(x.to(rows), weight, bias, labels).total
        assert torch.equal(total, vocabulary_loss(x.bfloat16(), weight, bias, labels).total)
    torch.testing.assert_close(total, whole, rtol=0.02, atol=0)
    found = torch.autograd.grad(total, (x, weight, bias))  # outside, as the training loop has it
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=0.05, atol=0.05)


def test_the_loss_of_a_bfloat16_model_is_summed_in_float32() -> None:
    x, weight, bias, labels = inputs(torch.bfloat16)
    loss = vocabulary_loss(x, weight, bias, labels)
    loss.total.backward()
    logits = F.linear(x, weight, bias).float()
    assert loss.total.dtype == torch.float32
    torch.testing.assert_close(loss.total, F.cross_entropy(logits, labels, reduction="sum"))
    assert bias.grad is not None
    assert bias.grad.dtype == torch.bfloat16


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_second_derivatives(smoothing: float) -> None:
    x, weight, bias, labels = inputs(torch.float64)
    assert torch.autograd.gradgradcheck(
        lambda *parts: vocabulary_loss(*parts, labels, smoothing).total, (x, weight, bias)
    )
    x.requires_grad_(False)
    assert torch.autograd.gradgradcheck(
        lambda *parts: vocabulary_loss(x, *parts, labels).total, (weight, bias)
    )


def test_sampling_every_token_is_the_whole_softmax() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(7, 5), torch.randn(11, 5), torch.randn(11)
    labels = torch.tensor([0, 3, 10, 3, 5, 7, 1])
    whole = vocabulary_loss(x, weight, bias, labels)
    found = sampled_loss(x, weight, bias, labels, torch.arange(11), torch.zeros(11))
    torch.testing.assert_close(found.total, whole.total)
    assert found.correct == whole.correct


def test_samples_are_as_frequent_as_expected() -> None:
    torch.manual_seed(0)
    drawn, expected = log_uniform(20, 200_000, "cpu")
    torch.testing.assert_close(
        drawn.bincount(minlength=20) / expected.exp(), torch.ones(20), rtol=0.05, atol=0
    )


def test_a_sampled_softmax_comes_near_the_whole_one() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(50, 4), torch.randn(300, 4), torch.randn(300)
    labels = torch.randint(0, 300, (50,))
    whole = vocabulary_loss(x, weight, bias, labels).total
    runs = [
        sampled_loss(x, weight, bias, labels, *log_uniform(300, 250, "cpu")).total
        for _ in range(40)
    ]
    torch.testing.assert_close(torch.stack(runs).mean(), whole, rtol=0.05, atol=0)
