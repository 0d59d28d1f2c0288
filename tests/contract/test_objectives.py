"""What objectives may do: prepare what is encoded, and be weighed against each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertwright.config.run import RunConfig
from bertwright.data.shards import open_shards
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.catalogue import trainable
from bertwright.models.load import load
from bertwright.models.system import System
from bertwright.nn.objective import Learner
from bertwright.recipes.configure import configure
from bertwright.recipes.pretrain import make_learner
from tests.contract.conftest import gradients
from tests.contract.toy_mixture import MIXTURE, Causal, add_mixture
from tests.small_runs import build_data, mapping_of


@pytest.fixture(autouse=True, scope="module")
def with_the_toy() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        add_mixture(patch)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_data(tmp_path_factory.mktemp("data"))


def config_of(system: System, data: Path, out: Path, **over: Any) -> RunConfig:
    run = trainable()[system.row.name]
    still = {"hidden_dropout_prob": 0.0}
    mapping = mapping_of(data, out, model=system.row.default, architecture=still, **over)
    return configure(run, mapping)


def learner_and_batches(system: System, data: Path) -> tuple[Learner, list[MaskedBatch]]:
    """A new learner, and batches of 7 and 4 instances, then of all 11."""
    shards = open_shards(data)
    config = config_of(system, data, data / "run")
    instances = system.trained_on(config, shards)[0].instances
    rows = (np.arange(7), np.arange(7, 11), np.arange(11))
    return make_learner(config, shards).train(), [instances.batch(0, each) for each in rows]


def test_a_prepared_loss_reaches_the_generator_and_the_embeddings(data: Path) -> None:
    learner, batches = learner_and_batches(load("electra"), data)
    found = gradients(learner, batches[:1])
    assert found.keys() == {name for name, _ in learner.named_parameters()}
    assert all(x.abs().sum() > 0 for name, x in found.items() if "segment" not in name)


def test_draws_are_of_the_seed_in_training_and_the_same_in_evaluation(data: Path) -> None:
    learner, (batch, *_) = learner_and_batches(load("electra"), data)

    def loss(seed: int) -> float:
        torch.manual_seed(seed)
        return float(learner(batch)["replaced_tokens"].total.detach())

    assert loss(1) == loss(1) != loss(2)
    learner.eval()
    assert loss(1) == loss(2)


def test_a_mixture_has_the_gradient_of_the_weighted_sum(data: Path) -> None:
    learner, (batch, *_) = learner_and_batches(MIXTURE, data)

    def gradient(weights: dict[str, float]) -> dict[str, Tensor]:
        learner.weights = weights
        return gradients(learner, [batch])

    mixed = gradient({"causal": 0.3})
    parts = [gradient({"masked_lm": 1.0, "causal": 0.0}), gradient({"masked_lm": 0.0})]
    assert mixed
    for name, value in mixed.items():
        torch.testing.assert_close(value, parts[0][name] + 0.3 * parts[1][name])
    assert any((part - mixed[name]).abs().max() > 1e-4 for name, part in parts[0].items())


def test_weights_do_not_change_the_losses_that_are_logged(data: Path) -> None:
    learner, (batch, *_) = learner_and_batches(MIXTURE, data)
    learner.weights = {"causal": 0.3}
    weighed = learner(batch)
    learner.weights = {}
    for name, loss in learner(batch).items():
        torch.testing.assert_close(loss.total, weighed[name].total)


def test_a_mixture_is_the_same_however_a_step_is_split(data: Path) -> None:
    learner, (first, second, both) = learner_and_batches(MIXTURE, data)
    whole, parts = gradients(learner, [both]), gradients(learner, [first, second])
    for name, value in whole.items():
        torch.testing.assert_close(parts[name], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("names", "passes"), [(["masked_lm"], 1), (["masked_lm", "causal"], 2)])
def test_the_encoder_passes_once_over_the_same_inputs(
    data: Path, names: list[str], passes: int
) -> None:
    learner, (batch, *_) = learner_and_batches(MIXTURE, data)
    read = []
    learner.encoder.register_forward_hook(lambda _, given, __: read.append(given[0]))
    chosen = Learner(learner.encoder, {name: learner.objectives[name] for name in names})
    losses = chosen(batch)
    assert len(read) == passes
    assert read[0] is batch.inputs
    assert {name: loss.count for name, loss in losses.items()} == chosen.counts(batch)


def test_the_causal_objective_does_not_see_what_follows(data: Path) -> None:
    learner, (batch, *_) = learner_and_batches(MIXTURE, data)
    head = learner.eval().objectives["causal"]
    assert isinstance(head, Causal)
    inputs = head.prepare(batch, learner.encoder, None).inputs
    changed = inputs.ids.clone()
    changed[4] = changed[4] + 1
    before = learner.encoder(inputs).last
    after = learner.encoder(type(inputs)(changed, inputs.sequences, inputs.segments)).last
    assert torch.equal(before[:4], after[:4])
    assert not torch.equal(before[4], after[4])
