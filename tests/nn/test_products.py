"""Weights that are laid out once: the numbers of torch's own product, and never those of others."""

from __future__ import annotations

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.nn.products import Linear, has_onednn, lay_out, product

WIDE = 1024
"""With as many outputs a product of two rows is laid out in float32, too."""
pytestmark = pytest.mark.skipif(not has_onednn(), reason="torch without oneDNN")


def some(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(WIDE, WIDE), nn.Linear(WIDE, 3, bias=False))
    return made.requires_grad_(False).to(dtype)


def near(found: Tensor, expected: Tensor) -> bool:
    low = found.dtype == torch.bfloat16
    return torch.allclose(found.float(), expected.float(), atol=3e-2 if low else 1e-5, rtol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1,), (2, 1), (3, 5), (67,), (0,)])
def test_same_numbers(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    plain = some(dtype)
    laid_out = copy.deepcopy(plain)
    lay_out(laid_out)
    x = torch.randn(*shape, WIDE).to(dtype)
    with torch.inference_mode():
        found = laid_out(x)
        assert found.shape == (*shape, 3)
        assert near(found, plain(x))


def test_it_is_laid_out_once_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    module, weight = some(), torch.randn(WIDE, WIDE)
    lay_out(module, weight)
    first = weight.laid_out  # type: ignore[attr-defined]
    lay_out(module, weight)
    assert weight.laid_out is first  # type: ignore[attr-defined]
    assert all(type(part) is Linear for part in module)
    x, expected = torch.randn(2, WIDE), F.linear(torch.ones(2, WIDE), weight)
    with torch.inference_mode():
        monkeypatch.setattr(F, "linear", None)
        assert near(product(torch.ones(2, WIDE), weight, None), expected)
        module[0](x)


@pytest.mark.parametrize("how", ["in place", "other numbers", "other dtype"])
def test_a_weight_that_changed(how: str) -> None:
    module, x = some(), torch.randn(2, WIDE)
    lay_out(module)
    if how == "in place":
        module[0].weight.mul_(2)
    elif how == "other numbers":
        module[0].weight.data = torch.randn(WIDE, WIDE)
    else:
        module, x = module.bfloat16(), x.bfloat16()
    with torch.inference_mode():
        assert near(module[0](x), F.linear(x, module[0].weight, module[0].bias))


def test_with_a_gradient_and_under_autocast() -> None:
    module, x = some(), torch.randn(2, WIDE, requires_grad=True)
    lay_out(module)
    module(x).sum().backward()
    assert x.grad is not None
    with torch.inference_mode(), torch.autocast("cpu"):
        assert module(x).dtype == torch.bfloat16


def test_copies() -> None:
    """They have the weights alone, and lay them out themselves."""
    module = some()
    lay_out(module)
    stored = io.BytesIO()
    torch.save(module, stored)
    stored.seek(0)
    read = torch.load(stored, weights_only=False)
    for other in (copy.deepcopy(module), read):
        other[0].weight.zero_()
        with torch.inference_mode():
            assert not other[0](torch.ones(2, WIDE)).sub(other[0].bias).any()
    assert module[0].weight.any()
