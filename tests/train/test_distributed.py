"""What ranks ask of each other, asked by two processes of torchrun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bertwright.train.distributed import Ranks, laid_like, reshard, whole

PROGRAM = """
import torch
from torch import nn
from bertwright.nn.batch import Batch
from bertwright.nn.objective import RowLosses, StepObjective
from bertwright.train.distributed import join_ranks, laid_like, reshard, whole
from bertwright.train.step_loss import share

with join_ranks("cpu", "fsdp") as ranks:
    torch.manual_seed(0)
    learner = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 6), nn.Linear(6, 3))
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    ranks.shard(learner, [learner[1]])
    own = [p.to_local().numel() for p in learner.parameters()]
    assert own == ([16, 12, 3, 12, 2] if ranks.is_first else [12, 12, 3, 6, 1]), own

    batches = ["a"] if ranks.is_first else ["b", "c", "d"]
    run = ranks.evened(batches)
    expected = [("a", True), ("a", False), ("a", False)]
    assert run == (expected if ranks.is_first else [(b, True) for b in batches]), run

    with torch.no_grad():
        learner(torch.arange(7))
    assert not hasattr(learner[0].weight, "to_local")  # gathered
    reshard(learner)
    assert learner[0].weight.to_local().shape == (4 if ranks.is_first else 3, 4)
    found = ranks.gather(learner.state_dict())
    assert found.keys() == (before.keys() if ranks.is_first else set())
    assert all(torch.equal(found[name], before[name]) for name in found)
    laid = laid_like(before["0.weight"], learner[0].weight)
    assert torch.equal(laid.to_local(), learner[0].weight.to_local())
    assert torch.equal(whole(laid), before["0.weight"])
    assert laid_like(torch.tensor(3.0), learner[0].weight) == 3.0

    # vectors of all ranks, and the gradient of a loss that relates them
    x, facts = torch.randn(5, 3), torch.arange(5.0).double()[:, None] * 2**40
    own = slice(0, 2) if ranks.is_first else slice(2, 5)
    all_x, all_facts, start = ranks.join_rows(x[own], facts[own])
    assert torch.equal(all_x, x) and torch.equal(all_facts, facts) and start == own.start

    class Related(StepObjective):
        def facts(self, batch):
            return facts[own]

        def step_loss(self, vectors, facts):
            return RowLosses(torch.logsumexp(vectors @ vectors.T, 1), None)

    (batch,) = share(Related(), [Batch(None)], [x[own]], ranks)
    leaf = x.clone().requires_grad_()
    torch.logsumexp(leaf @ leaf.T, 1).sum().backward()
    assert torch.allclose(batch.share.gradient, leaf.grad[own], atol=1e-6)
    total = ranks.sum([float(batch.share.total)])[0]
    assert abs(total - float(torch.logsumexp(x @ x.T, 1).sum())) < 1e-4
"""


def run_two(folder: Path, program: str) -> None:
    """A program in two processes of torchrun, which end well."""
    (folder / "program.py").write_text(program)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, *launcher, str(folder / "program.py")],
        cwd=Path(__file__).parents[2],
        env={"PATH": "", "PYTHONPATH": ".", "OMP_NUM_THREADS": "1"},
        timeout=200,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.slow
def test_two_processes_with_a_shard_each(tmp_path: Path) -> None:
    run_two(tmp_path, PROGRAM)


GONE = """
import os
from bertwright.errors import BertwrightError, IntegrityError
from bertwright.train.distributed import join_ranks

try:
    with join_ranks("cpu") as ranks:
        ranks.require_same("begins")
        try:
            ranks.require_same("begins" if ranks.is_first else "goes on from step-00000004")
        except IntegrityError as error:
            place = "begins" if ranks.is_first else "goes on from step-00000004"
            assert f"see different files, this one {place}: give all" in str(error), error
        else:
            raise AssertionError
        if not ranks.is_first:
            os._exit(0)
        ranks.wait()
except BertwrightError as error:
    assert "another process of the run is gone or" in str(error), error
    os._exit(0)
os._exit(1)
"""


@pytest.mark.slow
def test_another_process_sees_other_files_or_is_gone(tmp_path: Path) -> None:
    run_two(tmp_path, GONE)


def test_one_process_has_all() -> None:
    ranks = Ranks(0, 1, torch.device("cpu"), "fsdp")
    learner = torch.nn.Linear(3, 2)
    ranks.shard(learner, [])
    assert not ranks.is_sharded
    assert ranks.wrap(learner) is learner
    assert ranks.evened(iter("ab")) == [("a", True), ("b", True)]
    assert ranks.gather({"w": learner.weight})["w"].data_ptr() == learner.weight.data_ptr()
    assert whole(learner.weight) is learner.weight
    copy = laid_like(learner.weight.detach(), learner.weight)
    assert torch.equal(copy, learner.weight)
    assert copy.data_ptr() != learner.weight.data_ptr()
    reshard(learner)
