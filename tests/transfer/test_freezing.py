"""What learns, and how fast: depths, rates by depth, gradual unfreezing, schedules."""

from __future__ import annotations

import math

import pytest
import torch

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.config.finetune import FinetuneConfig
from bertwright.config.task import HeadConfig
from bertwright.errors import ConfigError
from bertwright.models.bert.config import BertConfig
from bertwright.nn.objective import Learner
from bertwright.tasks.catalogue import KINDS
from bertwright.tasks.tagging.options import TaggingOptions, TaggingTask
from bertwright.tasks.texts.options import ClassificationTask
from bertwright.train.optim import parameter_groups
from bertwright.train.schedule import slanted_triangular, without_bias_correction
from bertwright.transfer.freezing import gradual_depth
from bertwright.transfer.stepping import Stepping, learning_rates

SHAPE = BertConfig(
    vocab_size=37,
    hidden_size=12,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=20,
    max_position_embeddings=16,
)


def new_learner() -> Learner:
    task = ClassificationTask(labels=("no", "yes"), max_length=16, stride=4)
    return make_learner(SHAPE, [], {"task": task})


def learning(learner: Learner) -> set[int]:
    depth_of = learner.depths()
    return {depth_of[name] for name, p in learner.named_parameters() if p.requires_grad}


def test_depths_go_from_the_embeddings_to_the_head() -> None:
    depth_of = new_learner().depths()
    assert depth_of["encoder.embeddings.token.weight"] == 0
    assert depth_of["encoder.layers.0.attention.qkv.weight"] == 1
    assert depth_of["encoder.layers.2.feed_forward_norm.bias"] == 3
    assert depth_of["encoder.pooler.dense.weight"] == 4
    assert depth_of["objectives.task.classifier.weight"] == 4


def test_lower_layers_learn_slower_and_only_matrices_decay() -> None:
    learner = new_learner()
    names = {id(p): name for name, p in learner.named_parameters()}
    depth_of, seen = learner.depths(), set()
    for group in parameter_groups(learning_rates(learner, 0.01, 0.5), 0.3):
        for parameter in group["params"]:
            name = names[id(parameter)]
            seen.add(name)
            assert math.isclose(group["lr"], 0.01 * 0.5 ** (4 - depth_of[name])), name
            assert group["weight_decay"] == (0.3 if parameter.ndim == 2 else 0.0), name
    assert seen == set(names.values())


@pytest.mark.parametrize(
    ("part", "head"),
    [
        ("crf", HeadConfig()),
        ("network", HeadConfig(network="bilstm")),
        ("mix", HeadConfig(layers="mix")),
    ],
)
def test_what_starts_from_nothing_learns_at_its_own_rate(part: str, head: HeadConfig) -> None:
    options = TaggingOptions(crf=part == "crf")
    task = TaggingTask(labels=("O", "B-X"), max_length=16, stride=4, head=head, options=options)
    learner = make_learner(SHAPE, [], {"task": task})
    fresh = {id(p) for p in getattr(learner.objectives["task"], part).parameters()}
    for parameter, rate in learning_rates(learner, 3e-5):
        assert rate == (1e-3 if id(parameter) in fresh else 3e-5)
    assert {rate for _, rate in learning_rates(learner, 5e-3)} == {5e-3}


@pytest.mark.parametrize("epochs", [8, 49])  # 1 / 49 * 49 is rounded to less than 1
def test_gradual_unfreezing_takes_a_layer_an_epoch_from_the_top(epochs: int) -> None:
    lowest = [gradual_depth(epoch / epochs, epochs, 3) for epoch in range(8)]
    assert lowest == [3, 2, 1, 0, 0, 0, 0, 0]


def test_gradual_unfreezing_is_done_by_the_middle_of_a_short_run() -> None:
    lowest = [gradual_depth(done / 16, 2, 3) for done in range(17)]
    assert lowest == [3, 3, 2, 2, 1, 1] + [0] * 11  # each stage an eighth of the run


def test_the_slanted_triangle_is_that_of_the_paper() -> None:
    steps, cut, ratio = 200, 0.1, 32
    for t in range(steps + 1):
        knee = math.floor(steps * cut)
        p = t / knee if t < knee else 1 - (t - knee) / (knee * (1 / cut - 1))
        expected = (1 + p * (ratio - 1)) / ratio  # Howard & Ruder, equation 3
        assert math.isclose(slanted_triangular(t / steps), expected, abs_tol=1e-12)
    for warmup in (0.05, 0.0):  # it rises as long as is asked
        short = Stepping(new_learner(), config(transfer="gradual", warmup=warmup), 1.0, 1.0, 100)
        assert short(warmup, 0.01) == 1


def test_without_bias_correction_is_adam_without_it() -> None:
    """One parameter, some gradients: the moments themselves, against the corrected ones."""
    m = v = 0.0
    for step, gradient in enumerate([0.3, -0.1, 0.25, 0.7, -0.4], 1):
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        corrected = (m / (1 - 0.9**step)) / math.sqrt(v / (1 - 0.999**step))
        assert math.isclose(corrected * without_bias_correction(step), m / math.sqrt(v))


def config(**changes: object) -> FinetuneConfig:
    return FinetuneConfig(**{"model": "m", "out": "o", **changes})


def test_top_n_freezes_the_rest_and_its_weights_stay() -> None:
    learner = new_learner()
    Stepping(learner, config(transfer="top-3"), 0.1, 1.0, 10)
    assert learning(learner) == {1, 2, 3, 4}
    with pytest.raises(ConfigError, match=r"top-4.*3 layers"):
        Stepping(new_learner(), config(transfer="top-4"), 0.1, 1.0, 10)
    stepping = Stepping(learner, config(transfer="top-1"), 0.1, 1.0, 10)
    assert learning(learner) == {3, 4}
    before = {name: p.detach().clone() for name, p in learner.named_parameters()}
    for parameter in learner.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.ones_like(parameter)
    stepping(0.1, 0.1)
    stepping.optimizers.step()
    depth_of = learner.depths()
    for name, parameter in learner.named_parameters():
        assert torch.equal(parameter, before[name]) == (depth_of[name] < 3), name


@pytest.mark.parametrize(
    ("kinds", "head", "learns"),
    [
        (["classification"], HeadConfig(), True),
        (["multiple-choice"], HeadConfig(), True),
        (["tagging"], HeadConfig(), False),
        (["span"], HeadConfig(), False),
        (["tagging", "classification"], HeadConfig(), True),
        (["classification"], HeadConfig(layers="mix"), False),
        (["classification"], HeadConfig(network="bilstm"), False),
    ],
)
def test_a_pooler_that_no_head_reads_is_frozen(
    kinds: list[str], head: HeadConfig, learns: bool
) -> None:
    labels = {"classification": ("no", "yes"), "tagging": ("O", "B-X")}
    tasks = {
        kind: KINDS[kind].task(labels=labels.get(kind, ()), max_length=16, stride=4, head=head)
        for kind in kinds
    }
    learner = make_learner(SHAPE, [], tasks)
    Stepping(learner, config(), 0.1, 1.0, 10)
    pooler = [p.requires_grad for name, p in learner.named_parameters() if "pooler" in name]
    assert pooler == [learns, learns]


def test_gradual_slows_lower_layers_and_wakes_them_in_time() -> None:
    learner = new_learner()
    stepping = Stepping(learner, config(transfer="gradual"), 0.1, 8.0, 80)
    rates = {group["highest"] for part in stepping.optimizers.parts for group in part.param_groups}
    assert math.isclose(min(rates), 0.1 / 2.6**4)
    stepping(0.0, 0.0125)
    assert learning(learner) == {3, 4}
    stepping(0.2, 0.0125)  # in the second epoch
    assert learning(learner) == {2, 3, 4}
    stepping(0.5, 0.0125)
    assert learning(learner) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("transfer", ["finetune", "gradual"])
def test_lower_layers_are_slowed_as_is_asked(transfer: str) -> None:
    stepping = Stepping(new_learner(), config(transfer=transfer, layer_decay=0.5), 0.1, 8.0, 80)
    (adamw,) = stepping.optimizers.parts
    rates = sorted({group["highest"] for group in adamw.param_groups})
    assert rates == pytest.approx([0.1 * 0.5**depth for depth in (4, 3, 2, 1, 0)])


def test_rates_rise_and_fall_as_is_asked() -> None:
    stepping = Stepping(new_learner(), config(warmup=0.5), 0.1, 1.0, 4)
    for step, rate in enumerate([0.05, 0.1, 0.1, 0.05]):
        assert stepping(step / 4, 1 / 4) == pytest.approx(rate)
        (adamw,) = stepping.optimizers.parts
        assert all(math.isclose(group["lr"], rate) for group in adamw.param_groups)


def test_a_step_is_adamws() -> None:
    """Small gradients move a weight as far as large ones; matrices decay."""
    learner = new_learner()
    stepping = Stepping(learner, config(warmup=0.0, weight_decay=0.3), 0.1, 1.0, 10)
    before = {name: p.detach().clone() for name, p in learner.named_parameters()}
    for parameter in learner.parameters():
        parameter.grad = torch.full_like(parameter, 1e-5)
    stepping(0.5, 0.1)
    stepping.optimizers.step()
    for name, p in learner.named_parameters():
        kept = before[name] * (1 - 0.05 * 0.3) if p.ndim == 2 else before[name]
        torch.testing.assert_close(p.detach(), kept - 0.05, rtol=0, atol=1e-4, msg=name)


def test_the_first_steps_without_correction_are_longer() -> None:
    with_it = Stepping(new_learner(), config(warmup=0.0), 0.1, 1.0, 100)
    without = Stepping(new_learner(), config(warmup=0.0, bias_correction=False), 0.1, 1.0, 100)
    for step in (0, 1, 57):  # 57 / 100 * 100 is less than 57
        longer = without(step / 100, 0.01) / with_it(step / 100, 0.01)
        assert math.isclose(longer, (1 - 0.9 ** (step + 1)) / math.sqrt(1 - 0.999 ** (step + 1)))
