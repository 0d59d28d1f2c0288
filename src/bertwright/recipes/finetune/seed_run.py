"""One seed of a fine-tuning run: a learner trained, judged on dev, its best weights kept."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from torch import Tensor

from bertwright.config.finetune import FinetuneConfig
from bertwright.config.run import CheckpointConfig, LogConfig, ValidationConfig
from bertwright.errors import BertwrightError
from bertwright.labelled.examples import SpanExample
from bertwright.objectives.objective import Learner
from bertwright.recipes.finetune.epoch_batches import EpochBatches
from bertwright.recipes.finetune.setup import TaskSetup
from bertwright.tasks.evaluate import Evaluation, evaluate
from bertwright.tasks.predict import predict
from bertwright.tasks.predictions import Prediction, SpanPrediction, is_finite
from bertwright.tasks.span import decide_best
from bertwright.train.distributed import Ranks
from bertwright.train.hardware import Precision
from bertwright.train.log import Log
from bertwright.train.loop import LoopConfig, Trainer
from bertwright.train.schedule import Budget
from bertwright.train.state import Position
from bertwright.transfer.stepping import Stepping
from bertwright.transfer.task_words import train_task_words


class Diverged(BertwrightError):
    """A seed, or all seeds of a task, whose numbers are no longer finite; others may do better."""


@dataclass(frozen=True)
class Machine:
    """Where a run trains, and in what."""

    ranks: Ranks
    precision: Precision
    peak: float
    """Floating-point operations a second at best."""
    micro_tokens: int


@dataclass
class SeedRun:
    """What came of one seed."""

    seed: int
    state: dict[str, Tensor] = field(default_factory=dict)
    """The weights that are kept, by name in the learner."""
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    """Of the kept weights, by task."""
    predictions: dict[str, list[Prediction]] = field(default_factory=dict)
    thresholds: dict[str, float] = field(default_factory=dict)
    """Null thresholds that were tuned on dev, by task."""
    step: int = 0
    """After which the kept weights stood."""
    best_epoch: float = 0.0
    """The same in passes over the data."""
    epochs: float = 0.0
    seconds: float = 0.0
    """Of training alone."""
    examples_per_second: float = 0.0

    @property
    def score(self) -> float:
        """The mean over tasks of the metric that weights are chosen by."""
        return mean_score(self.evaluations)


def mean_score(evaluations: dict[str, Evaluation]) -> float:
    """The mean over tasks of their main metrics; below all others where one is undefined."""
    mains = [each.metrics[each.main] for each in evaluations.values()]
    finite = bool(mains) and all(map(math.isfinite, mains))
    return sum(mains) / len(mains) if finite else -math.inf


def train_seed(
    config: FinetuneConfig,
    setups: Sequence[TaskSetup],
    learner: Learner,
    seed: int,
    machine: Machine,
    log: Log | None,
) -> SeedRun:
    """Train a learner and keep its best weights, or its last, as `config.keep` says.

    Args:
        config: the run, with its epochs and its learning rate.
        setups: its tasks; of frozen features, their instances are rows of the learner's table.
        learner: a BERT, or a table of features, under a head for each task.
        seed: of order and dropout.
        machine: where.
        log: told every step's line; None on every rank but the first.

    Raises:
        Diverged: the gradients, step after step, or what is said of dev are not finite.
    """
    epochs, rate = config.epochs, config.learning_rate
    assert epochs is not None
    assert rate is not None
    learner = learner.to(machine.ranks.device)
    windows = (
        ids for setup in setups for instance in setup.train.instances for ids in instance.ids
    )
    train_task_words(learner, chain.from_iterable(windows))
    source = EpochBatches(
        [(s.task_name, s.task, s.train.instances, s.files.weight) for s in setups],
        config.batch_size,
        machine.micro_tokens,
        seed,
        machine.ranks,
    )
    steps = max(1, round(epochs * source.steps_in_epoch))
    every = max(1, round(source.steps_in_epoch / config.evaluations_per_epoch))
    run = SeedRun(seed)
    stepping = Stepping(learner, config, rate, epochs, steps)
    judge = _Judge(run, config, setups, learner, machine, every, source.steps_in_epoch, steps)
    trainer = Trainer(
        learner,
        stepping.optimizers,
        source,
        Budget(steps=steps),
        LoopConfig(
            seed=seed,
            precision=machine.precision,
            peak=machine.peak,
            clip_norm=config.clip_norm,
            log=LogConfig(every_seconds=5.0),
            validation=ValidationConfig(every_steps=every),
            checkpoint=CheckpointConfig(every_minutes=1e9),
        ),
        machine.ranks,
        log,
        flops=learner.flops,
        evaluate=judge,
        save=lambda position: None,
        begin_step=stepping,
        is_enough=judge.is_enough,
    )
    began = time.monotonic()
    try:
        position = trainer.run(Position())
    except BertwrightError as error:
        if type(error) is not BertwrightError:
            raise
        raise Diverged(f"seed {seed}: {error}") from error  # the loop gave up on its gradients
    run.seconds = time.monotonic() - began - judge.seconds
    run.epochs = position.step / source.steps_in_epoch
    examples = sum(len(setup.train.examples) * setup.files.weight for setup in setups)
    run.examples_per_second = examples * run.epochs / max(1e-9, run.seconds)
    return run


class _Judge:
    """Asks dev how good the weights are, and keeps the best."""

    def __init__(
        self,
        run: SeedRun,
        config: FinetuneConfig,
        setups: Sequence[TaskSetup],
        learner: Learner,
        machine: Machine,
        every: int,
        steps_in_epoch: int,
        steps: int,
    ) -> None:
        """`every`: steps between two looks."""
        self._run = run
        self._config = config
        self._setups = setups
        self._learner = learner
        self._machine = machine
        self._every = every
        self._steps_in_epoch = steps_in_epoch
        self._steps = steps
        self._looks = 0
        self._worse = 0
        self._best = -math.inf
        self.seconds = 0.0
        """That judging took."""

    def __call__(self) -> dict[str, float]:
        """The metrics of dev; of several tasks by task, the main one of each first."""
        began = time.monotonic()
        self._looks += 1
        step = min(self._looks * self._every, self._steps)
        epoch = step / self._steps_in_epoch
        seen = SeedRun(self._run.seed, step=step, best_epoch=epoch)
        for setup in self._setups:
            judge_task(seen, setup, self._learner, self._machine)
        better = self._looks == 1 or seen.score > self._best
        if better:
            self._best = seen.score
        self._worse = 0 if better else self._worse + 1
        if better or self._config.keep == "last":
            self._keep(seen)
        self.seconds += time.monotonic() - began
        if len(self._setups) == 1:
            (one,) = seen.evaluations.values()
            return {"epoch": epoch, **one.metrics}
        mains = {f"{name}.{each.main}": each.score for name, each in seen.evaluations.items()}
        return {"epoch": epoch, **mains} | {
            f"{name}.{metric}": value
            for name, evaluation in seen.evaluations.items()
            for metric, value in evaluation.metrics.items()
        }

    def is_enough(self) -> bool:
        """Whether dev has not got better for so long that it will not."""
        return self._config.patience is not None and self._worse >= self._config.patience

    def _keep(self, seen: SeedRun) -> None:
        self._run.evaluations = seen.evaluations
        self._run.predictions = seen.predictions
        self._run.thresholds = seen.thresholds
        self._run.step, self._run.best_epoch = seen.step, seen.best_epoch
        self._run.state = {
            name: value.detach().to("cpu", copy=True)
            for name, value in self._learner.state_dict().items()
        }


def judge_task(seen: SeedRun, setup: TaskSetup, learner: Learner, machine: Machine) -> None:
    """Predict a task's dev examples and put the figures into `seen`.

    Raises:
        Diverged: a prediction is not finite.
    """
    task, data = setup.task, setup.dev
    device, precision = machine.ranks.device, machine.precision
    predictions = predict(learner, data, device, precision, machine.micro_tokens)
    if not all(map(is_finite, predictions)):
        raise Diverged(f"seed {seen.seed}: what it says of dev is not finite")
    if task.unanswerable:
        spans = [p for p in predictions if isinstance(p, SpanPrediction)]
        questions = [e for e in data.examples if isinstance(e, SpanExample)]
        exact = (setup.files.metric or "").endswith("exact_match")
        decided, threshold = decide_best(questions, spans, "exact_match" if exact else "f1")
        seen.thresholds[setup.task_name] = threshold
        task = replace(task, null_threshold=threshold)
        predictions = list(decided)
    seen.predictions[setup.task_name] = predictions
    seen.evaluations[setup.task_name] = evaluate(
        task, data.examples, predictions, main=setup.files.metric, intervals=False, worst=0
    )
