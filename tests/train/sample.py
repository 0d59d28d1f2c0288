"""A tiny STILL, batches of unlike sequences, and a trainer of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.config.run import CheckpointConfig, LogConfig, OptimizerConfig, ValidationConfig
from bertwright.data.loading.phases import DataPosition
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.nn.init import initialize
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.train.distributed import Ranks
from bertwright.train.hardware import Hardware
from bertwright.train.log import Log
from bertwright.train.loop import Trainer
from bertwright.train.optim import make_optimizers
from bertwright.train.schedule import Budget, warmup_decay
from bertwright.train.state import Position
from tests.small_bert import STILL

ALONE = Ranks(0, 1, torch.device("cpu"))
# Sequences of unlike lengths with unlike numbers of masks; one of them has none.
LENGTHS = [13, 11, 9, 9, 7, 5, 4]
MASKS = [3, 1, 0, 5, 2, 1, 1]


def new_learner(
    objectives: Sequence[str] = ("masked_lm", "next_sentence"), dropout: float = 0.0
) -> Learner:
    drops = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    learner = make_learner(replace(STILL, **drops), objectives)
    initialize(learner, 0.2, torch.Generator().manual_seed(0))
    return learner


def make_batch(rows: Sequence[int], step: int = 0) -> MaskedBatch:
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
    return MaskedBatch(
        Inputs(torch.cat(ids), Sequences([LENGTHS[row] for row in rows])),
        torch.cat(positions),
        torch.cat(labels),
        torch.tensor(pairs),
        torch.tensor(rows),
    )


@dataclass
class Given:
    """The same sequences each step, cut into micro-batches as `split` says."""

    split: Sequence[Sequence[int]]
    asked: list[tuple[DataPosition, float]] = field(default_factory=list)

    def step(self, at: DataPosition, done: float) -> tuple[list[MaskedBatch], DataPosition]:
        self.asked.append((at, done))
        batches = [make_batch(rows, at.step) for rows in self.split]
        return batches, replace(at, step=at.step + 1)


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

    learner.flops = lambda batch: 1e6
    trainer = Trainer(
        learner=learner,
        optimizers=optimizers,
        begin_step=begin_step,
        clip_norm=stepping.clip_norm,
        source=Given(split),
        budget=Budget(steps=steps),
        seed=1,
        hardware=Hardware(ALONE, changes.pop("precision", "fp32"), 1e11),
        log=log,
        evaluate=evaluate,
        save=save,
        when_to_log=LogConfig(every_steps=1),
        when_to_validate=ValidationConfig(every_steps=2),
        when_to_save=CheckpointConfig(every_steps=2),
    )
    return replace(trainer, **changes)


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
