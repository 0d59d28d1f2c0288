"""GloVe: a step is the gradient of the formula, and a run may end in the middle of a pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bertwright.models.catalogue import make_run
from bertwright.models.word_vectors.config import GloveRun
from bertwright.recipes.pretrain import pretrain
from bertwright.report.read import METRICS
from bertwright.train.log import read_records
from tests.small_runs import build_data

V, H = 11, 5


def test_a_step_is_the_gradient_of_the_formula() -> None:
    kernels = pytest.importorskip("bertwright.models.word_vectors.kernels")
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(2, V, H, generator=generator).double()
    biases = torch.randn(2, V, generator=generator).double()
    squares = [torch.rand(x.shape, generator=generator).double() + 1 for x in (vectors, biases)]
    entries = [(3, 7, 2.5), (4, 4, 80.0), (7, 9, 0.2)]
    ours = [x.float().numpy().copy() for x in (vectors, biases, *squares)]
    keys = np.array([i * V + j for i, j, _ in entries])
    sums = np.array([x for *_, x in entries])
    order = np.array([2, 0, 1])
    loss, count = kernels.train_cooccurrences(keys, sums, order, *ours, 100.0, 0.75, 0.05)
    expected = 0.0
    steps = [
        (i, j, x) for n in order for i, j, x in (entries[n], (*entries[n][1::-1], entries[n][2]))
    ][:5]
    for i, j, x in steps:
        x *= 1 + (i == j)
        vectors.requires_grad_(), biases.requires_grad_()
        f = min(1.0, (x / 100) ** 0.75)
        score = vectors[0, i] @ vectors[1, j] + biases[0, i] + biases[1, j] - np.log(x)
        value = f * score**2 / 2
        gradients = torch.autograd.grad(value, (vectors, biases))
        new = []
        for each, square, gradient in zip((vectors, biases), squares, gradients, strict=True):
            new.append((each - 0.05 * gradient / square.sqrt()).detach())
            square += (0.05 * gradient) ** 2
        vectors, biases = new
        expected += value.item()
    assert (count, loss) == (5, pytest.approx(expected, rel=1e-5))
    for mine, reference in zip(ours, (vectors, biases, *squares), strict=True):
        np.testing.assert_allclose(mine, reference.numpy(), rtol=1e-5, atol=1e-6)


def test_a_run_may_end_in_the_middle_of_a_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertwright.models.word_vectors.system._SLICE", 10)
    data = build_data(tmp_path)
    keys = {"data": str(data), "device": "cpu", "precision": "fp32", "workers": 1}
    read = []
    for epochs in (1.0, 1.25):
        out = tmp_path / str(epochs)
        run = make_run(GloveRun, {**keys, "out": str(out), "epochs": epochs})
        pretrain(run, lambda _: None)
        read.append(read_records(out / METRICS)[-1]["tokens"])
    assert read[1] == pytest.approx(1.25 * read[0], rel=0.05)
