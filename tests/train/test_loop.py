"""The loop: exact accumulation, clipping, what is left out, what is due; on a tiny BERT."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.config.run import CheckpointConfig, LogConfig, OptimizerConfig, ValidationConfig
from bertwright.cpu_threads import generator_on
from bertwright.data.loading.phases import DataPosition
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.nn.encoder import Encoded
from bertwright.train import loop
from bertwright.train.distributed import Ranks, join_ranks
from bertwright.train.hardware import Hardware
from bertwright.train.log import Log, read_records
from bertwright.train.loop import Trainer
from bertwright.train.loss_sums import Window, mean_losses
from bertwright.train.schedule import Budget
from bertwright.train.state import Position
from tests.train.sample import ALONE, LENGTHS, MASKS, Given, make_batch, make_trainer, new_learner


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


@pytest.mark.parametrize("split", [[[0, 1], [2], [3, 4, 5, 6]], [[6]], [[2]]])
def test_the_gradient_is_that_of_the_mean_losses(split: list[list[int]]) -> None:
    """Also where one thing is predicted, or nothing is."""
    learner = new_learner()
    losses = learner(make_batch([row for part in split for row in part]))
    sum(loss.total / max(1, loss.count) for loss in losses.values()).backward()
    found = gradients(split)
    for name, p in learner.named_parameters():
        torch.testing.assert_close(found[name], p.grad, rtol=0, atol=1e-6, msg=name)


def test_a_step_forgets_the_gradient_of_the_one_before() -> None:
    learner, still = new_learner(), OptimizerConfig("adamw", learning_rate=1e-12, clip_norm=0.0)
    make_trainer(learner, steps=3, optimizer=still).run(Position())
    found = {name: p.grad.clone() for name, p in learner.named_parameters()}
    learner.zero_grad()
    sum(x.total / x.count for x in learner(make_batch(range(7), step=2)).values()).backward()
    for name, p in learner.named_parameters():
        torch.testing.assert_close(found[name], p.grad, rtol=0, atol=1e-6, msg=name)


def test_dropout_of_a_micro_batch_is_the_same_whenever_it_is_drawn() -> None:
    def seeds(start: Position, **changes: Any) -> list[int]:
        learner, seen = new_learner(), []

        def draw(*_: object) -> None:
            own = generator_on("cpu")
            seen.append(own.initial_seed() if own else torch.initial_seed())

        learner.encoder.register_forward_pre_hook(draw)
        make_trainer(learner, [[0, 1, 2], [3, 4, 5, 6]], evaluate=dict, **changes).run(start)
        return seen

    whole = seeds(Position())
    assert len(set(whole)) == len(whole) == 8
    assert set(seeds(Position(step=2, data=DataPosition(step=2)))) == set(whole[4:])
    assert not set(seeds(Position(), seed=2)) & set(whole)


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


class Clocked(Given):
    """Each step takes ten seconds of a clock."""

    clock: list[float]

    def step(self, at: DataPosition, done: float) -> tuple[list[MaskedBatch], DataPosition]:
        self.clock[0] += 10
        return super().step(at, done)


@pytest.fixture
def clocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainer:
    """A trainer whose clock moves in steps, in validation (35 s) and in saving (7 s) alone."""
    clock = [1e5]
    monkeypatch.setattr(loop.time, "monotonic", lambda: clock[0])

    def evaluate() -> dict[str, float]:
        clock[0] += 35
        return {"loss": 1.0}

    def save(position: Position) -> None:
        clock[0] += 7

    log = Log(tmp_path, lambda line: None)
    trainer = make_trainer(new_learner(), steps=16, log=log, evaluate=evaluate, save=save)
    trainer.source = Clocked([[0, 1, 2], [3, 4, 5, 6]])
    trainer.source.clock = clock
    return trainer


def test_what_the_clock_makes_due(clocked: Trainer, tmp_path: Path) -> None:
    """Speed is that of stepping: what validation and saving took is not counted."""
    saved: list[float] = []
    save = clocked.save
    clocked.save = lambda position: (saved.append(position.seconds), save(position))[1]
    clocked.when_to_log = LogConfig(every_seconds=25)
    clocked.when_to_validate = ValidationConfig(every_minutes=1)
    clocked.when_to_save = CheckpointConfig(every_minutes=2)
    clocked.run(Position())
    told = read_records(tmp_path / "metrics.jsonl")
    lines = [record for record in told if record["split"] == "train"]
    assert [r["seconds"] for r in told if r["split"] == "dev"] == [60, 125, 187, 252, 314]
    assert [record["seconds"] for record in lines] == [30, 60, 105, 177, 232, 304, 349]
    assert saved == [125, 252, 349]
    assert {record["tokens_per_second"] for record in lines} == {sum(LENGTHS) / 10}
    assert [r["utilization"] for r in lines] == pytest.approx([2e6 / 10 / 1e11] * len(lines))


def test_a_peak_that_is_exceeded_gives_a_utilization_above_one(
    clocked: Trainer, tmp_path: Path
) -> None:
    clocked.when_to_log = LogConfig(every_steps=1)
    clocked.hardware = Hardware(ALONE, "fp32", 1e4)
    clocked.run(Position())
    assert read_records(tmp_path / "metrics.jsonl")[0]["utilization"] == pytest.approx(20)


def test_a_run_of_seconds_goes_on_with_its_clock(clocked: Trainer) -> None:
    clocked.when_to_validate = ValidationConfig(every_steps=999)
    clocked.when_to_save = CheckpointConfig(every_steps=999)
    clocked.budget = Budget(seconds=100)
    end = clocked.run(Position(step=5, seconds=70))
    assert [done for _, done in clocked.source.asked] == [0.7, 0.8, 0.9]
    assert (end.step, end.seconds) == (8, 100 + 35)  # with the last validation
    clocked.source.asked.clear()
    assert clocked.run(Position(seconds=170)).step == 1
    assert [done for _, done in clocked.source.asked] == [1.0]


def test_a_line_is_of_all_its_steps(tmp_path: Path) -> None:
    lines = []
    for every in (1, 4):
        log = Log(tmp_path, lambda line: None)
        trainer = make_trainer(new_learner(), log=log, optimizer=OptimizerConfig())
        trainer.when_to_log = LogConfig(every_steps=every)
        trainer.run(Position())
        lines.append(read_records(tmp_path / "metrics.jsonl"))
    each, (whole,) = lines
    for key in ("gradient_norm", "loss", "masked_lm.loss", "next_sentence.accuracy"):
        assert whole[key] == pytest.approx(sum(line[key] for line in each) / 4)
    for key in ("step", "tokens", "learning_rate"):
        assert whole[key] == each[-1][key]


def test_places_follow_each_other(tmp_path: Path) -> None:
    saved: list[Position] = []
    log = Log(tmp_path, lambda line: None)
    trainer = make_trainer(new_learner(), steps=4, log=log, save=saved.append)
    end = trainer.run(Position())
    # the last one is asked for the loss after the last step
    assert [at.step for at, _ in trainer.source.asked] == [0, 1, 2, 3, 4]
    assert [done for _, done in trainer.source.asked] == [0, 0.25, 0.5, 0.75, 1]
    told = [(p.step, p.finished, p.records) for p in saved]
    assert told == [(2, False, 2), (4, False, 4), (4, True, 4)]
    assert end.step == 4
    assert end.tokens == 4 * sum(LENGTHS)
    assert end.data == DataPosition(step=4)


def test_validation_is_in_eval_mode_and_told(tmp_path: Path) -> None:
    learner, modes = new_learner().eval(), []
    learner.encoder.register_forward_pre_hook(lambda *_: modes.append(learner.training))
    log = Log(tmp_path, lambda line: None)

    def evaluate() -> dict[str, float]:
        modes.append(learner.training)
        return {"loss": 1.0}

    make_trainer(learner, steps=3, log=log, evaluate=evaluate).run(Position())
    assert modes == [True, True, False, True, False]
    assert learner.training
    told = [(r["step"], r["split"]) for r in read_records(tmp_path / "metrics.jsonl")]
    assert told == [(1, "train"), (2, "train"), (2, "dev"), (3, "train"), (3, "dev")]


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
    trainer.when_to_log = LogConfig(every_steps=4)
    trainer.run(Position())
    at = {p.step: p for p in saved if not p.finished}
    assert at[2].window.steps == 2
    assert at[2].window.sums[1] == 2 * sum(MASKS)
    assert at[4].window.steps == 0
    assert (at[4].window.step, at[4].window.tokens) == (4, 4 * sum(LENGTHS))


def test_a_line_is_of_both_sessions_of_a_run(tmp_path: Path) -> None:
    """However often it goes on from there."""
    still = OptimizerConfig("adamw", learning_rate=1e-12)
    saved: list[Position] = []
    lines = []
    for _ in range(3):
        log = Log(tmp_path, lambda line: None)
        trainer = make_trainer(new_learner(), log=log, optimizer=still, save=saved.append)
        trainer.when_to_log = LogConfig(every_steps=4)
        trainer.run(saved[0] if saved else Position())
        (line,) = read_records(tmp_path / "metrics.jsonl")
        lines.append(line)
    for key in ("step", "tokens", "loss", "next_sentence.accuracy", "gradient_norm"):
        assert lines[1][key] == lines[2][key] == pytest.approx(lines[0][key], rel=1e-6)


def test_ranks_divide_by_what_all_of_them_count() -> None:
    """Of two that have the same, the mean of their gradients is that of one."""

    class Two(Ranks):
        def sum(self, numbers: list[float]) -> list[float]:
            return [2 * number for number in numbers]

    learner = new_learner()
    trainer = make_trainer(learner, steps=1)
    trainer.ranks = Two(0, 2, torch.device("cpu"))
    assert trainer.run(Position()).tokens == 2 * sum(LENGTHS)
    for name, gradient in gradients([range(7)]).items():
        found = dict(learner.named_parameters())[name].grad
        torch.testing.assert_close(found, gradient, rtol=0, atol=1e-6, msg=name)


@pytest.mark.parametrize("rank", [0, 1])
def test_the_first_rank_goes_on_with_the_sums_of_all(rank: int) -> None:
    class Other(Ranks):
        def sum(self, numbers: list[float]) -> list[float]:
            return numbers

    saved: list[Position] = []
    trainer = make_trainer(new_learner(), steps=3, save=saved.append)
    trainer.ranks = Other(rank, 1, torch.device("cpu"))
    trainer.when_to_log = LogConfig(every_steps=99)
    trainer.run(Position(window=Window(steps=4, sums=[100.0] * 8, flops=5e6)))
    before = 100 * (rank == 0)
    assert saved[0].window.sums[1] == before + 2 * sum(MASKS)
    assert saved[0].window.flops == 2e6 + 5e6 * (rank == 0)


def test_mean_losses_are_over_all_batches() -> None:
    learner = new_learner()
    batches = [make_batch(rows) for rows in ([0, 1], [2], [3, 4, 5, 6])]
    apart = mean_losses(learner, iter(batches), Hardware(ALONE, "fp32", 1.0))
    whole = mean_losses(learner, iter([make_batch(range(7))]), Hardware(ALONE, "fp32", 1.0))
    assert apart == pytest.approx(whole, rel=1e-5)
    assert whole["loss"] == whole["masked_lm.loss"] + whole["next_sentence.loss"]


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_vectors_are_in_the_precision_of_the_run(precision: Any, dtype: torch.dtype) -> None:
    learner, seen = new_learner(), []

    def keep(encoder: object, inputs: object, encoded: Encoded) -> None:
        seen.append((encoded.last.dtype, encoded.last.requires_grad))

    learner.encoder.register_forward_hook(keep)
    make_trainer(learner, steps=1, evaluate=dict, precision=precision).run(Position())
    mean_losses(learner, [make_batch(range(7))], Hardware(ALONE, precision, 1.0))
    assert seen == [(dtype, True), (dtype, False)]


def test_seeds_of_dropout_are_all_different() -> None:
    trainers = []
    for rank in range(3):
        trainer = make_trainer(new_learner())
        trainer.ranks = Ranks(rank, 3, ALONE.device)
        trainers.append(trainer)
    seeds = [
        t.dropout_seed(step, micro) for t in trainers for step in range(40) for micro in range(40)
    ]
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
