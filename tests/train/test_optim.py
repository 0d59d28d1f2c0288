"""AdamW and Muon against the formulas of their papers, what decays, and clipping."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterable

import pytest
import torch
from torch import nn

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.config.run import OptimizerConfig
from bertwright.train import muon
from bertwright.train.hardware import Precision
from bertwright.train.muon import COEFFICIENTS, ITERATIONS, Muon, orthogonal
from bertwright.train.optim import clip_gradients, make_optimizers
from tests.small_bert import STILL as SMALL


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
    config = OptimizerConfig("adamw", 0.0, rate, beta1, beta2, eps, decay)
    optimizer = make_optimizers(module, config)
    moments = {name: (0.0, 0.0) for name, _ in expected.named_parameters()}
    for step in range(1, 8):
        optimizer.zero_grad()
        module(IDS).backward()
        for p, ours in zip(expected.parameters(), module.parameters(), strict=True):
            p.grad = None if ours.grad is None else ours.grad.double()
        optimizer.step()
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
    (adamw,) = make_optimizers(module, OptimizerConfig(matrices="adamw")).parts
    decay_of = {id(p): g["weight_decay"] for g in adamw.param_groups for p in g["params"]}
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


class Hidden(nn.Module):
    """What Muon takes, and what it leaves: few rows, embeddings, vectors, frozen weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 16)
        self.wide = nn.Linear(16, 48)
        self.square = nn.Linear(48, 48)
        self.classifier = nn.Linear(48, 2)
        self.frozen = nn.Linear(48, 48)
        self.frozen.requires_grad_(False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.square(self.wide(self.embedding(ids)).tanh())).cos().sum()


def test_muon_takes_hidden_matrices() -> None:
    module = Hidden()
    config = OptimizerConfig(matrices="muon", matrix_learning_rate=0.02, learning_rate=0.01)
    optimizers = make_optimizers(module, config)
    adamw, by_muon = optimizers.parts
    assert [p.shape for p in by_muon.param_groups[0]["params"]] == [(48, 16), (48, 48)]
    taken = [p for part in (adamw, by_muon) for g in part.param_groups for p in g["params"]]
    learning = [p for p in module.parameters() if p.requires_grad]
    assert {id(p) for p in taken} == {id(p) for p in learning}
    assert len(taken) == len(learning)
    optimizers.set_rates(0.5)
    assert [g["lr"] for part in (adamw, by_muon) for g in part.param_groups] == [0.005, 0.005, 0.01]
    optimizers.set_rates(1.0)
    assert [g["lr"] for part in (adamw, by_muon) for g in part.param_groups] == [0.01, 0.01, 0.02]


def test_lower_layers_have_lower_rates_and_token_embeddings_the_top_one() -> None:
    learner = make_learner(SMALL, ["masked_lm"])
    names = {id(p): name for name, p in learner.named_parameters()}
    config = OptimizerConfig(matrix_learning_rate=0.02, learning_rate=0.01, layer_decay=0.5)
    top, found = SMALL.num_hidden_layers + 1, {}
    for part, rate in zip(make_optimizers(learner, config).parts, (0.01, 0.02), strict=True):
        for group in part.param_groups:
            found |= {names[id(p)]: group["lr"] / rate for p in group["params"]}
    assert found.keys() == set(names.values())
    for name, depth in learner.depths().items():
        expected = 1.0 if name == "encoder.embeddings.token.weight" else 0.5 ** (top - depth)
        assert math.isclose(found[name], expected), name


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_muon_is_pytorchs(precision: Precision) -> None:
    """In bfloat16, to the rounding of its last place; in float32, near it."""
    torch.manual_seed(2)
    ours = nn.ModuleList(nn.Linear(n, m) for m, n in ((48, 16), (17, 33), (24, 24)))
    theirs = copy.deepcopy(ours)
    config = OptimizerConfig("muon", matrix_learning_rate=0.02, weight_decay=0.1)
    (_, by_muon) = make_optimizers(ours, config, precision).parts
    matrices = [linear.weight for linear in theirs]
    expected = torch.optim.Muon(matrices, lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        for linear, matrix in zip(ours, matrices, strict=True):
            linear.weight.grad = torch.randn_like(matrix)
            matrix.grad = linear.weight.grad.clone()
        before = [matrix.detach().clone() for matrix in matrices]
        by_muon.step()
        expected.step()
        for linear, matrix, old in zip(ours, matrices, before, strict=True):
            state = by_muon.state[linear.weight]["momentum_buffer"]
            assert torch.equal(state, expected.state[matrix]["momentum_buffer"])
            apart = (linear.weight - matrix).norm() / (matrix - old).norm()
            assert apart < (1e-6 if precision == "bf16" else 0.05)
            linear.weight.data.copy_(matrix.data)


def test_muon_repeats_bit_for_bit_with_a_matrix_on_each_core() -> None:
    torch.manual_seed(4)
    alone = nn.ModuleList(nn.Linear(n, m) for m, n in ((48, 16), (17, 33), (24, 24)))
    together = copy.deepcopy(alone)
    threads = torch.get_num_threads()
    try:
        for learner, count in ((alone, 1), (together, 2)):
            torch.set_num_threads(count)
            (_, by_muon) = make_optimizers(learner, OptimizerConfig("muon"), "fp32").parts
            for step in range(3):
                for linear in learner:
                    draws = torch.Generator().manual_seed(step)
                    linear.weight.grad = torch.randn(linear.weight.shape, generator=draws)
                by_muon.step()
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(alone.parameters(), together.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("shape", [(12, 30), (30, 12), (17, 17)])
def test_a_polynomial_of_singular_values(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape)
    left, values, right = torch.linalg.svd(x.double(), full_matrices=False)
    values = values / values.norm()
    for _ in range(ITERATIONS):
        values = sum(k * values**n for k, n in zip(COEFFICIENTS, (1, 3, 5), strict=True))
    expected = left @ torch.diag(values) @ right
    torch.testing.assert_close(orthogonal(x, torch.float32).double(), expected, rtol=0, atol=1e-5)


def test_no_gradient_is_no_direction() -> None:
    assert not orthogonal(torch.zeros(4, 6), torch.float32).any()


def test_muon_takes_a_rate_beyond_all_numbers() -> None:
    """The loop ends such a run and says why; an error of its optimizer would say nothing."""
    module = Hidden()
    optimizers = make_optimizers(module, OptimizerConfig(matrix_learning_rate=3e38))
    module.square.weight.grad = torch.randn(48, 48)
    optimizers.step()
    assert module.square.weight.abs().max() > 1e30


def test_muon_steps_along_an_orthogonal_matrix() -> None:
    """All singular values of a step are near each other, and its size is that of AdamW's."""
    torch.manual_seed(1)
    module = Hidden()
    rate = 0.02
    config = OptimizerConfig(matrices="muon", matrix_learning_rate=rate, weight_decay=0.0)
    optimizers = make_optimizers(module, config)
    before = module.square.weight.detach().clone()
    module.square.weight.grad = torch.randn(48, 48)
    optimizers.step()
    step = module.square.weight.detach() - before
    singular = torch.linalg.svdvals(step)
    assert singular.min() > 0.4 * singular.max()
    assert float(step.square().mean().sqrt()) == pytest.approx(0.2 * rate, rel=0.3)
    assert float((step * module.square.weight.grad).sum()) < 0


def by_shape(matrices: Iterable[torch.Tensor]) -> list[list[torch.Tensor]]:
    return [list(same) for _, same in itertools.groupby(matrices, lambda matrix: matrix.shape)]


@pytest.mark.parametrize("good", [True, False])
def test_matrices_of_one_shape_move_together_as_one_by_one(
    good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a GPU moves them; a step that is not to be done changes nothing, moments included."""
    torch.manual_seed(1)
    alone, together = (
        [nn.Parameter(torch.randn(shape)) for shape in ((24, 16), (24, 16), (16, 24), (20, 20))]
        for _ in range(2)
    )
    for one, other in zip(alone, together, strict=True):
        other.data.copy_(one.data)
    optimizers = [Muon(each, 0.1, 0.1, torch.float32) for each in (alone, together)]
    for step in range(3):
        for one, other in zip(alone, together, strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        optimizers[1].found_inf = torch.tensor(0.0 if good or step == 0 else 1.0)
        if step and not good:
            together[0].grad[0, 0] = float("nan")
        else:
            optimizers[0].step()
        with monkeypatch.context() as patch:
            patch.setattr(muon, "_updated_together", by_shape)
            optimizers[1].step()
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6)
        first, second = (o.state[p] for o, p in zip(optimizers, (one, other), strict=True))
        torch.testing.assert_close(second["momentum_buffer"], first["momentum_buffer"])


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
