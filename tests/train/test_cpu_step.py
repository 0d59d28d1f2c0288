"""Micro-batches on cores of their own, beside the plain step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bertwright.nn.encoder import Encoded
from bertwright.nn.objective import Learner, RowLosses, StepObjective
from bertwright.train.state import Position
from tests.train.sample import make_trainer, new_learner


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_micro_batches_on_cores_of_their_own(dropout: float) -> None:
    """Again gives the same bits; the plain step, which one thread does, the same but for
    rounding."""
    split = [[0, 1], [2, 3], [4], [5, 6]]

    def trained(threads: int) -> dict[str, torch.Tensor]:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            learner = new_learner(dropout=dropout)
            make_trainer(learner, split, steps=3).run(Position())
        finally:
            torch.set_num_threads(before)
        return learner.state_dict()

    first, again, alone = trained(2), trained(2), trained(1)
    for name, parameter in first.items():
        assert torch.equal(parameter, again[name]), name
        torch.testing.assert_close(parameter, alone[name], rtol=0, atol=1e-6)


class Related(StepObjective[Any]):
    """Relates the first vectors of all sequences of a step to each other."""

    def vectors(self, encoded: Encoded, batch: Any) -> torch.Tensor:
        return encoded.last[batch.inputs.sequences.first.long()]

    def facts(self, batch: Any) -> torch.Tensor:
        return batch.instances.double()[:, None]

    def count(self, batch: Any) -> int:
        return len(batch.instances)

    def step_loss(self, vectors: torch.Tensor, facts: torch.Tensor) -> RowLosses:
        return RowLosses(torch.logsumexp(vectors @ vectors.T, 1), None)


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("split", [[[0, 1, 2], [3, 4, 5, 6]], [[0, 1, 2], [3, 4], [5, 6]]])
def test_a_step_objective_on_cores_of_their_own(split: list[list[int]], others: bool) -> None:
    """Vectors are computed once where each micro-batch has a core, and twice elsewhere; the
    weights are the same but for rounding."""

    def trained(threads: int) -> tuple[dict[str, torch.Tensor], int]:
        made = new_learner(dropout=0.3)
        encoder, masked_lm = made.encoder, made.objectives["masked_lm"]
        beside = {"masked_lm": masked_lm} if others else {}
        learner = Learner(encoder, {"related": Related(), **beside})
        calls: list[object] = []
        encoder.register_forward_hook(lambda *call: calls.append(call[0]))
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            make_trainer(learner, split, steps=3, evaluate=dict).run(Position())
        finally:
            torch.set_num_threads(before)
        return learner.state_dict(), len(calls)

    (beside, calls), (alone, calls_alone) = trained(2), trained(1)
    assert calls_alone == 3 * 2 * len(split)
    assert calls == (3 if len(split) == 2 else 6) * len(split)
    for name, parameter in beside.items():
        torch.testing.assert_close(parameter, alone[name], rtol=0, atol=1e-6)
