"""The loop: exact accumulation, clipping, what is left out, what is due; on a tiny BERT."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.config.bert import BertConfig
from bertwright.config.pretrain import (
    CheckpointConfig,
    LogConfig,
    OptimizerConfig,
    ValidationConfig,
)
from bertwright.data.loader import TensorBatch
from bertwright.errors import BertwrightError, Interrupted
from bertwright.nn.init import initialize
from bertwright.nn.sequences import Sequences
from bertwright.objectives.objective import Learner
from bertwright.train import loop
from bertwright.train.distributed import Ranks, join_ranks
from bertwright.train.log import Log, read_records
from bertwright.train.loop import MOST_SKIPPED, LoopConfig, Trainer, mean_losses
from bertwright.train.loss_sums import Window
from bertwright.train.optim import make_optimizers
from bertwright.train.schedule import Budget, warmup_decay
from bertwright.train.state import Place, Position

ALONE = Ranks(0, 1, torch.device("cpu"))
BERT = BertConfig(
    vocab_size=53,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=40,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=17,
)
# Sequences of unlike lengths with unlike numbers of masks; one of them has none.
LENGTHS = [13, 11, 9, 9, 7, 5, 4]
MASKS = [3, 1, 0, 5, 2, 1, 1]


def new_learner(objectives: Sequence[str] = ("masked_lm", "next_sentence")) -> Learner:
    learner = make_learner(BERT, objectives)
    initialize(learner, 0.2, torch.Generator().manual_seed(0))
    return learner


def make_batch(rows: Sequence[int], step: int = 0) -> TensorBatch:
    """The sequences of these numbers, of a step; the same however they are grouped."""
    ids, positions, labels, pairs, start = [], [], [], [], 0
    for row in rows:
        chance = torch.Generator().manual_seed(1000 * step + row)
        ids.append(torch.randint(0, 53, (LENGTHS[row],), generator=chance))
        masked = torch.randperm(LENGTHS[row], generator=chance)[: MASKS[row]].sort().values
        positions.append(start + masked)
        labels.append(torch.randint(0, 53, (MASKS[row],), generator=chance))
        pairs.append(row % 2)
        start += LENGTHS[row]
    return TensorBatch(
        torch.cat(ids),
        torch.zeros(start, dtype=torch.long),
        Sequences([LENGTHS[row] for row in rows]),
        torch.cat(positions),
        torch.cat(labels),
        torch.tensor(pairs),
        np.asarray(rows),
    )


@dataclass
class Given:
    """The same sequences each step, cut into micro-batches as `split` says."""

    split: Sequence[Sequence[int]]
    asked: list[tuple[Place, float]] = field(default_factory=list)

    def step(self, place: Place, done: float) -> tuple[list[TensorBatch], Place]:
        self.asked.append((place, done))
        batches = [make_batch(rows, place.step) for rows in self.split]
        return batches, replace(place, step=place.step + 1)


def make_trainer(
    learner: Learner,
    split: Sequence[Sequence[int]] = (range(7),),
    *,
    steps: int = 4,
    log: Log | None = None,
    evaluate: Callable[[], dict[str, float]] | None = None,
    save: Callable[[Position], None] = lambda position: None,
    **changes: Any,
) -> Trainer:
    stepping = changes.pop("optimizer", OptimizerConfig(clip_norm=0.0))
    warmup = changes.pop("warmup", 0.06)
    optimizers = make_optimizers(learner, stepping)

    def begin_step(done: float, width: float) -> float:
        factor = warmup_decay(done, warmup, width)
        optimizers.set_rates(factor)
        return stepping.learning_rate * factor

    config = LoopConfig(
        seed=1,
        precision="fp32",
        peak=1e11,
        clip_norm=stepping.clip_norm,
        log=LogConfig(every_steps=1),
        validation=ValidationConfig(every_steps=2),
        checkpoint=CheckpointConfig(every_steps=2),
    )
    return Trainer(
        learner,
        optimizers,
        Given(split),
        Budget(steps=steps),
        replace(config, **changes),
        ALONE,
        log,
        flops=lambda batch: 1e6,
        evaluate=evaluate,
        save=save,
        begin_step=begin_step,
    )


def gradients(split: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
    """Of the first step, as the optimizer meets them."""
    learner = new_learner()
    trainer = make_trainer(learner, split, steps=1)
    trainer.run(Position())
    return {name: p.grad for name, p in learner.named_parameters()}


@pytest.mark.parametrize(
    "split",
    [
        [[0], [1], [2], [3], [4], [5], [6]],
        [[0, 1, 2, 3, 4, 5], [6]],
        [[2], [0, 1], [3, 4, 5, 6]],
        [[6, 5, 4], [3, 2, 1, 0]],
    ],
)
def test_however_a_step_is_cut_its_gradient_is_the_same(split: list[list[int]]) -> None:
    whole, parts = gradients([range(7)]), gradients(split)
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, rtol=0, atol=1e-6, msg=name)


def test_the_gradient_is_that_of_the_mean_losses() -> None:
    learner = new_learner()
    losses = learner(make_batch(range(7)))
    sum(loss.total / loss.count for loss in losses.values()).backward()
    found = gradients([[0, 1], [2], [3, 4, 5, 6]])
    for name, p in learner.named_parameters():
        torch.testing.assert_close(found[name], p.grad, rtol=0, atol=1e-6, msg=name)


def test_clipping_bounds_what_reaches_the_optimizer(tmp_path: Path) -> None:
    norms, told = {}, {}
    for clip in (0.0, 0.05):
        learner, log = new_learner(), Log(tmp_path, lambda line: None)
        clipping = OptimizerConfig(clip_norm=clip)
        make_trainer(learner, steps=1, log=log, optimizer=clipping).run(Position())
        norms[clip] = torch.cat([p.grad.flatten() for p in learner.parameters()]).norm().item()
        told[clip] = read_records(tmp_path / "metrics.jsonl")[-1]["gradient_norm"]
    assert norms[0.0] > 0.05
    assert norms[0.05] == pytest.approx(0.05, rel=1e-4)
    assert told[0.0] == told[0.05] == pytest.approx(norms[0.0], rel=1e-5)


def test_rates_follow_the_schedule(tmp_path: Path) -> None:
    log = Log(tmp_path, lambda line: None)
    changes = {"warmup": 0.5, "optimizer": OptimizerConfig()}
    make_trainer(new_learner(), log=log, steps=4, **changes).run(Position())
    rates = [r["learning_rate"] for r in read_records(tmp_path / "metrics.jsonl")]
    assert rates == pytest.approx([0.5e-3, 1e-3, 1e-3, 0.5e-3])


def test_what_is_left_counts_no_preparing(tmp_path: Path) -> None:
    said: list[str] = []
    trainer = make_trainer(new_learner(), log=Log(tmp_path, said.append))
    trainer.run(Position(seconds=1000.0, window=Window(seconds=1000.0)))
    assert len(said) == 4
    assert all(re.search(r" · 0:0\d left$", line) for line in said)


def test_places_follow_each_other(tmp_path: Path) -> None:
    saved: list[Position] = []
    trainer = make_trainer(new_learner(), steps=5, save=saved.append)
    end = trainer.run(Position())
    assert [place.step for place, _ in trainer.source.asked] == [0, 1, 2, 3, 4]
    assert [done for _, done in trainer.source.asked] == [0, 0.2, 0.4, 0.6, 0.8]
    assert [(p.step, p.finished) for p in saved] == [(2, False), (4, False), (5, True)]
    assert end.step == 5
    assert end.tokens == 5 * sum(LENGTHS)
    assert end.place == Place(step=5)


def test_validation_is_in_eval_mode_and_told(tmp_path: Path) -> None:
    learner, modes = new_learner(), []
    log = Log(tmp_path, lambda line: None)

    def evaluate() -> dict[str, float]:
        modes.append(learner.training)
        return {"loss": 1.0}

    make_trainer(learner, steps=3, log=log, evaluate=evaluate).run(Position())
    assert modes == [False, False]
    assert learner.training
    told = [(r["step"], r["split"]) for r in read_records(tmp_path / "metrics.jsonl")]
    assert told == [(1, "train"), (2, "train"), (2, "dev"), (3, "train"), (3, "dev")]


def corrupt(monkeypatch: pytest.MonkeyPatch, value: float, calls: Sequence[int]) -> None:
    """Give some calls of the learner (from 1) another loss whose gradient is finite or not."""
    forward, count = Learner.forward, [0]

    def corrupted(learner: Learner, batch: object) -> object:
        losses = forward(learner, batch)
        count[0] += 1
        if count[0] in calls:
            name = "masked_lm"
            losses[name] = replace(losses[name], total=losses[name].total + value)
        return losses

    monkeypatch.setattr(Learner, "forward", corrupted)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_left_out_even_where_its_gradient_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    """Adding a constant to a loss leaves its gradient as it was."""
    said: list[str] = []
    learner, log = new_learner(), Log(tmp_path, said.append)
    before = {name: p.clone() for name, p in learner.named_parameters()}
    corrupt(monkeypatch, value, [1])
    trainer = make_trainer(learner, steps=1, log=log)
    end = trainer.run(Position())
    assert all(torch.equal(p, before[name]) for name, p in learner.named_parameters())
    assert not any(trainer.optimizers.state_of(p) for p in learner.parameters())
    assert said == [
        "step 1: the loss is not finite; the step is left out, the weights stay as they were"
    ]
    assert read_records(tmp_path / "metrics.jsonl") == []
    assert (end.step, end.tokens) == (1, 0)


def test_a_gradient_that_is_not_finite_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    learner, log = new_learner(), Log(tmp_path, said.append)
    before = {name: p.clone() for name, p in learner.named_parameters()}
    learner.encoder.pooler.dense.bias.register_hook(lambda g: g * float("inf"))
    make_trainer(learner, steps=2, log=log).run(Position())
    assert all(torch.equal(p, before[name]) for name, p in learner.named_parameters())
    assert said[0].startswith("step 1: the norm of the gradient is ")
    assert len(said) == 2


def test_only_steps_in_a_row_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[Position] = []
    bad = [*range(2, 2 + MOST_SKIPPED - 1), *range(10, 10 + MOST_SKIPPED)]
    corrupt(monkeypatch, float("nan"), bad)
    learner = new_learner()
    trainer = make_trainer(learner, steps=40, save=saved.append)
    message = r"step 14: the loss is not finite, 5 steps in a row"
    with pytest.raises(BertwrightError, match=message):
        trainer.run(Position())
    assert saved[-1].step == 8  # no loss after step 9 was finite: nobody should go on from there
    assert (trainer.diverged, trainer.good) == (True, 8)
    assert all(p.isfinite().all() for p in learner.parameters())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_breaks_an_accumulation_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    forward, calls, saved = Learner.forward, [0], []

    def stopping(learner: Learner, batch: object) -> object:
        calls[0] += 1
        if calls[0] == 8:  # the second of three micro-batches of step 3
            signal.raise_signal(number)
            signal.raise_signal(number)  # a closing terminal and some launchers send it twice
        return forward(learner, batch)

    monkeypatch.setattr(Learner, "forward", stopping)
    log = Log(tmp_path, lambda line: None)
    split = [[0, 1, 2], [3, 4], [5, 6]]
    trainer = make_trainer(new_learner(), split, log=log, steps=9, save=saved.append)
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with pytest.raises(Interrupted, match="interrupted before step 3") as stop:
            trainer.run(Position())
    finally:
        signal.signal(signal.SIGHUP, hangup)
    assert stop.value.exit_code == 128 + number
    assert calls[0] == 8
    assert [p.step for p in saved] == [2]  # saved already when the signal came
    assert [r["step"] for r in read_records(tmp_path / "metrics.jsonl")] == [1, 2]


def test_a_second_signal_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    def impatient(position: Position) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(loop, "SECONDS_OF_ONE_SIGNAL", -1.0)
    with pytest.raises(KeyboardInterrupt):
        make_trainer(new_learner(), steps=9, save=impatient).run(Position())


def test_under_nohup_a_closed_terminal_is_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        hang_up = lambda position: signal.raise_signal(signal.SIGHUP)  # noqa: E731
        assert make_trainer(new_learner(), steps=3, save=hang_up).run(Position()).finished
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_first_rank_says_when_it_is_enough() -> None:
    class Second(Ranks):
        def from_first(self, number: float) -> float:
            return 1.0 if number == 0.0 else number  # the first one says yes

    trainer = make_trainer(new_learner(), steps=9)
    trainer.ranks = Second(0, 1, torch.device("cpu"))
    assert trainer.run(Position()).step == 2


def test_what_is_between_two_lines_is_saved() -> None:
    saved: list[Position] = []
    trainer = make_trainer(new_learner(), steps=6, save=saved.append)
    trainer.config = replace(trainer.config, log=LogConfig(every_steps=4))
    trainer.run(Position())
    at = {p.step: p for p in saved if not p.finished}
    assert at[2].window.steps == 2
    assert at[2].window.sums[2] == 2 * sum(MASKS)
    assert at[4].window.steps == 0
    assert (at[4].window.step, at[4].window.tokens) == (4, 4 * sum(LENGTHS))


def test_mean_losses_are_over_all_batches() -> None:
    learner = new_learner()
    batches = [make_batch(rows) for rows in ([0, 1], [2], [3, 4, 5, 6])]
    apart = mean_losses(learner, iter(batches), "fp32", ALONE)
    whole = mean_losses(learner, iter([make_batch(range(7))]), "fp32", ALONE)
    assert apart == pytest.approx(whole, rel=1e-5)
    assert whole["loss"] == whole["masked_lm.loss"] + whole["next_sentence.loss"]


def test_seeds_of_dropout_are_all_different() -> None:
    trainers = []
    for rank in range(3):
        trainer = make_trainer(new_learner())
        trainer.ranks = Ranks(rank, 3, ALONE.device)
        trainers.append(trainer)
    seeds = [t._seed(step, micro) for t in trainers for step in range(40) for micro in range(40)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_one_process_joins_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with join_ranks("cpu") as ranks:
        assert ranks == ALONE
        assert ranks.is_first
        assert ranks.sum([1.0, 2.0]) == [1.0, 2.0]
        assert ranks.from_first(3.0) == 3.0
        ranks.wait()
        learner = new_learner()
        assert ranks.wrap(learner) is learner
