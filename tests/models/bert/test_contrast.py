"""The contrast of neighbouring sequences: its loss by hand, and its gradient for any split."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.models.bert.contrast import NeighbourContrast
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.nn.init import initialize
from bertwright.nn.objective import Learner
from bertwright.train.distributed import Ranks
from bertwright.train.step_loss import share
from tests.models.bert.conftest import make_batch
from tests.small_bert import STILL

ALONE = Ranks(0, 1, torch.device("cpu"))
PAIRS = torch.tensor([5, 9, 5, -1])
"""Of four sequences: 0 and 2 are neighbours, that of 1 is in another step, and 3 has none."""


@pytest.fixture
def learner() -> Learner:
    made = make_learner(STILL, ["masked_lm", "contrast"])
    initialize(made, 0.2, torch.Generator().manual_seed(0))
    return made


def batch_of(rows: list[int]) -> MaskedBatch:
    return replace(make_batch(rows), next_sentence_labels=None, neighbours=PAIRS[rows])


def contrast_of(learner: Learner) -> NeighbourContrast:
    objective = learner.objectives["contrast"]
    assert isinstance(objective, NeighbourContrast)
    return objective


def test_loss_by_hand(learner: Learner) -> None:
    batch = batch_of([0, 1, 2, 3])
    encoded = learner.encoder(batch.inputs)
    means = [part.mean(0) for part in encoded.last.split(batch.inputs.sequences.lengths)]
    scores = {
        (a, b): F.cosine_similarity(means[a], means[b], dim=0) / 0.05
        for a in range(4)
        for b in range(4)
    }
    expected = 0.0
    for a, b in ((0, 2), (2, 0)):
        others = torch.stack([scores[a, other] for other in range(4) if other != a])
        expected += (torch.logsumexp(others, 0) - scores[a, b]).item()
    found = learner(batch)["contrast"]
    assert found.count == contrast_of(learner).count(batch) == 3
    assert found.total.item() == pytest.approx(expected, rel=1e-4)


def test_neighbours_are_found_in_another_micro_batch(learner: Learner) -> None:
    objective = contrast_of(learner)

    def gradient(batches: list[MaskedBatch]) -> torch.Tensor:
        learner.zero_grad()
        for batch in batches:
            losses = learner(batch)
            (losses["masked_lm"].total + losses["contrast"].total).backward()
        return torch.cat([p.grad.flatten() for p in learner.parameters() if p.grad is not None])

    batches = [batch_of([0, 1]), batch_of([2]), batch_of([3])]
    with torch.no_grad():
        vectors = [learner.step_vectors(batch) for batch in batches]
    shared = share(objective, batches, vectors, ALONE)
    whole = gradient([batch_of([0, 1, 2, 3])])
    assert torch.allclose(gradient([*shared]), whole, atol=2e-6)
    assert not torch.allclose(gradient(batches), whole, atol=1e-3)


def test_its_gradient_is_a_tenth_beside_the_masked_lm(learner: Learner) -> None:
    batch, weight = batch_of([0, 1, 2, 3]), learner.encoder.layer(0).attention.qkv.weight
    (tenth,) = torch.autograd.grad(learner(batch)["contrast"].total, weight)
    learner.weights = {"contrast": 1.0}
    (whole,) = torch.autograd.grad(learner(batch)["contrast"].total, weight)
    assert torch.allclose(10 * tenth, whole, atol=1e-5)
