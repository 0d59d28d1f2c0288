"""AdamW against the formula of its paper, what decays, and clipping."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from bertwright.train.optim import clip_gradients, make_adamw


class Parts(nn.Module):
    """One of each kind of parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.linear = nn.Linear(5, 3)
        self.norm = nn.LayerNorm(3)
        self.frozen = nn.Linear(3, 2)
        self.frozen.requires_grad_(False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(self.embedding(ids))).square().sum(1).cos().sum()


def parts() -> Parts:
    torch.manual_seed(3)
    return Parts()


IDS = torch.tensor([0, 3, 3, 6, 1])


def test_adamw_is_the_formula() -> None:
    rate, (beta1, beta2), eps, decay = 3e-2, (0.85, 0.95), 1e-6, 0.1
    module = parts()
    expected = copy.deepcopy(module).double()
    optimizer = make_adamw(module, rate, (beta1, beta2), eps, decay)
    moments = {name: (0.0, 0.0) for name, _ in expected.named_parameters()}
    for step in range(1, 8):
        optimizer.zero_grad()
        module(IDS).backward()
        optimizer.step()
        expected.zero_grad()
        expected(IDS).backward()
        with torch.no_grad():
            for name, p in expected.named_parameters():
                if p.grad is None:
                    continue
                m, v = moments[name]
                m = beta1 * m + (1 - beta1) * p.grad
                v = beta2 * v + (1 - beta2) * p.grad**2
                moments[name] = m, v
                decays = name in ("embedding.weight", "linear.weight")
                p *= 1 - rate * (decay if decays else 0.0)
                corrected = (v / (1 - beta2**step)).sqrt() + eps
                p -= rate * (m / (1 - beta1**step)) / corrected
    for (name, ours), theirs in zip(module.named_parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=2e-6, msg=name)


def test_matrices_decay_and_nothing_else() -> None:
    module = parts()
    groups = make_adamw(module, 1e-3, (0.9, 0.999), 1e-8, 0.01).param_groups
    decay_of = {id(p): g["weight_decay"] for g in groups for p in g["params"]}
    found = {name: decay_of.get(id(p)) for name, p in module.named_parameters()}
    assert found == {
        "embedding.weight": 0.01,
        "linear.weight": 0.01,
        "linear.bias": 0.0,
        "norm.weight": 0.0,
        "norm.bias": 0.0,
        "frozen.weight": None,
        "frozen.bias": None,
    }


@pytest.mark.parametrize("most", [0.0, 0.5, 1e9])
def test_clipping(most: float) -> None:
    module = parts()
    module(IDS).backward()
    before = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    whole = math.sqrt(sum(float(g.double().square().sum()) for g in before))
    assert whole > 0.5
    assert clip_gradients(module.parameters(), most) == pytest.approx(whole, rel=1e-5)
    scale = most / whole if most == 0.5 else 1.0
    after = [p.grad for p in module.parameters() if p.grad is not None]
    for old, new in zip(before, after, strict=True):
        torch.testing.assert_close(new, old * scale)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_clipping_tells_of_what_is_not_finite(bad: float) -> None:
    module = parts()
    module(IDS).backward()
    module.linear.bias.grad[1] = bad
    others = module.embedding.weight.grad.clone()
    assert not math.isfinite(clip_gradients(module.parameters(), 1.0))
    assert torch.equal(module.embedding.weight.grad, others)
