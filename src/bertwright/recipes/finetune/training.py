"""Train one seed of a fine-tuning run, evaluate it on dev, and keep its best weights.

A step has `batch_size` examples of one task, split into micro-batches by tokens. The order of the
examples is new in each epoch. The steps of several tasks are shuffled together (Liu et al. 2019,
MT-DNN, algorithm 1), in proportion to the size of each task times its weight.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from bertwright.arrays import Int64s
from bertwright.config.finetune import FinetuneConfig
from bertwright.config.run import CheckpointConfig, LogConfig, ValidationConfig
from bertwright.config.task import TaskConfig
from bertwright.data.loading.ahead import Ahead
from bertwright.data.loading.phases import DataPosition
from bertwright.data.randomness import make_key, permutation
from bertwright.errors import BertwrightError, DataError
from bertwright.nn.finite import NotFinite
from bertwright.nn.objective import Learner
from bertwright.progress import silent
from bertwright.recipes.finetune.setup import TaskSetup
from bertwright.tasks.batch import TaskBatch, instance_batches
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.evaluate import Evaluation, evaluate
from bertwright.tasks.instances import Instance
from bertwright.tasks.predict import predict
from bertwright.tasks.predictions import Prediction
from bertwright.tasks.task_data import make_batch
from bertwright.train.distributed import Ranks
from bertwright.train.hardware import Hardware
from bertwright.train.log import Log
from bertwright.train.loop import Trainer, evaluate_and_log
from bertwright.train.schedule import Budget
from bertwright.train.state import Position
from bertwright.transfer.head_start import HeadStart
from bertwright.transfer.stepping import Stepping
from bertwright.transfer.task_words import train_task_words

LEAST = 64
"""The minimum number of tokens of a micro-batch if each core of a CPU gets its own."""
EVALUATED = 3
"""The number of evaluated tokens that cost as much as one trained token, which also needs a
backward pass and an update.
"""


class Diverged(BertwrightError):
    """Raised if a seed, or every seed, diverged to numbers that are not finite.

    Other seeds may not diverge.
    """


@dataclass(frozen=True)
class TaskHardware(Hardware):
    """The hardware of a fine-tuning run, and the sizes of the batches that it computes."""

    micro_tokens: int
    """The maximum number of tokens of a training micro-batch."""
    predicted_tokens: int
    """The maximum number of tokens of a batch for prediction, or for computing features."""


@dataclass
class SeedRun:
    """The result of one seed."""

    seed: int
    state: dict[str, Tensor] = field(default_factory=dict)
    """The weights that are kept, by their names in the learner."""
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    """The evaluations of these weights, by task."""
    predictions: dict[str, list[Prediction]] = field(default_factory=dict)
    tasks: dict[str, TaskConfig] = field(default_factory=dict)
    """The tasks with the settings that were tuned on dev, by name."""
    fits: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Facts about heads that were fitted without steps, by task."""
    step: int = 0
    """The step after which the weights were kept."""
    best_epoch: float = 0.0
    """The epoch after which the weights were kept; it may be fractional."""
    epochs: float = 0.0
    seconds: float = 0.0
    """The time of training, without that of evaluations."""
    examples_per_second: float = 0.0

    @property
    def score(self) -> float:
        """The mean of the tasks' main metrics; minus infinity if one is undefined."""
        mains = [each.metrics[each.main] for each in self.evaluations.values()]
        return sum(mains) / len(mains) if mains and all(map(math.isfinite, mains)) else -math.inf


@dataclass(frozen=True)
class SeedOptions:
    """How a seed is trained, beside what its configuration says."""

    seconds: float | None = None
    """The maximum time of training, if its epochs take longer: the learning rate falls to zero
    until then, and the last evaluation on dev follows. None: no limit.
    """
    start: HeadStart | None = None
    """The fitted layers that new heads begin as, which are evaluated before the first step."""
    has_dev: bool = True
    """Whether there are evaluations on dev; without them, the last weights are kept."""
    on_evaluation: Callable[[SeedRun], object] = silent
    """Called with the result of each evaluation."""
    on_tokens: Callable[[float], None] = silent
    """Called with the number of tokens of each step, and a third of that of evaluated tokens."""


def train_seed(
    config: FinetuneConfig,
    setups: Sequence[TaskSetup],
    learner: Learner,
    hardware: TaskHardware,
    log: Log | None,
    options: SeedOptions = SeedOptions(),
) -> SeedRun:
    """Train a learner with the seed of a configuration, and keep its best or its last weights, as
    set by `config.keep`.

    The learner is an encoder, or a table of features, with a head for each task.

    Raises:
        Diverged: the gradients of several steps, or predictions on dev, are not finite.
    """
    epochs, rate = cast(float, config.epochs), cast(float, config.learning_rate)
    seed, start = config.seed, options.start
    learner = learner.to(hardware.device)
    windows = (ids for s in setups for instance in s.train.instances for ids in instance.ids)
    train_task_words(learner, chain.from_iterable(windows))
    loader = TaskLoader(
        [(s.task_name, s.task, s.train.instances, s.files.weight) for s in setups],
        config.batch_size,
        hardware.micro_tokens,
        seed,
        hardware.ranks,
        options.on_tokens,
    )
    in_epoch = loader.steps_in_epoch
    steps = max(1, round(epochs * in_epoch))
    every = max(1, round(in_epoch / config.evaluations_per_epoch))
    stepping = Stepping(learner, config, rate, epochs, steps)
    validation = _Validation(config, setups, learner, hardware, in_epoch, options, SeedRun(seed))

    def begin_step(done: float, width: float) -> float:
        validation.steps += 1
        return stepping(done, width)

    if start is not None:
        if config.keep == "best" and options.has_dev:
            start.place_fitted(learner)
            evaluate_and_log(learner, validation, log, Position())
        start.place_to_train(learner)
    trainer = Trainer(
        learner=learner,
        optimizers=stepping.optimizers,
        begin_step=begin_step,
        clip_norm=config.clip_norm,
        source=loader,
        budget=Budget(steps=steps, seconds=options.seconds),
        seed=seed,
        hardware=hardware,
        log=log,
        evaluate=validation if options.has_dev else None,
        save=lambda position: None,
        when_to_log=LogConfig(every_seconds=5.0),
        when_to_validate=ValidationConfig(every_steps=every),
        when_to_save=CheckpointConfig(every_minutes=1e9),
        is_enough=validation.is_enough,
    )
    began, before = time.monotonic(), validation.seconds
    try:
        position = trainer.run(Position())
    except BertwrightError as error:
        if type(error) is not BertwrightError:
            raise
        raise Diverged(f"seed {seed}: {error}") from error  # gradients are not finite
    if not options.has_dev:
        validation.run = SeedRun(seed, weights_of(learner), step=position.step)
        validation.run.best_epoch = position.step / in_epoch
    run = validation.run
    run.seconds = time.monotonic() - began - (validation.seconds - before)
    run.epochs = position.step / in_epoch
    examples = sum(len(setup.train.examples) * setup.files.weight for setup in setups)
    run.examples_per_second = examples * run.epochs / max(1e-9, run.seconds)
    return run


def weights_of(learner: Learner) -> dict[str, Tensor]:
    """Return a copy of the weights of a learner, on the host."""
    state = learner.state_dict()
    return {name: value.detach().to("cpu", copy=True) for name, value in state.items()}


@dataclass
class TaskLoader:
    """Provides the training loop with the steps of labelled tasks."""

    tasks: Sequence[tuple[str, TaskConfig, Sequence[Instance], float]]
    """The name, task, training instances and weight of each task."""
    batch_size: int
    micro_tokens: int
    seed: int
    ranks: Ranks
    on_tokens: Callable[[float], None] = silent
    order: tuple[int, list[tuple[int, Int64s]]] = field(default=(-1, []), init=False)
    """The last epoch that was requested, and its steps."""

    def __post_init__(self) -> None:
        self._ahead = Ahead(self._make, self.ranks.device.type == "cuda")

    @property
    def steps_in_epoch(self) -> int:
        """The number of steps of one pass over all tasks."""
        return len(self._epoch(0))

    def step(self, at: DataPosition, done: float) -> tuple[list[TaskBatch], DataPosition]:
        """Return this rank's micro-batches of a step, and the next position.

        On a GPU, a thread prepares the following step.
        """
        batches, following = self._ahead(at)
        self.on_tokens(sum(batch.num_tokens for batch in batches))
        return batches, following

    def _make(self, at: DataPosition) -> tuple[list[TaskBatch], DataPosition]:
        steps = self._epoch(at.epoch)
        number, rows = steps[at.step]
        name, task, instances, _ = self.tasks[number]
        of_rank = rows[self.ranks.rank :: self.ranks.world_size].tolist()
        most = self._most_tokens(instances, of_rank)
        batches = [
            make_batch(name, task, instances, part, str(self.ranks.device))
            for part in instance_batches(instances, most, of_rank)
        ]
        if at.step + 1 < len(steps):
            return batches, replace(at, step=at.step + 1)
        return batches, replace(at, epoch=at.epoch + 1, step=0)

    def _most_tokens(self, instances: Sequence[Instance], rows: Sequence[int]) -> int:
        """Return the maximum number of tokens of a micro-batch.

        On a CPU, it is so low that each core gets its own micro-batch (train/cpu_step.py).
        """
        if self.ranks.device.type != "cpu" or self.ranks.world_size > 1:
            return self.micro_tokens
        tokens = np.cumsum(sorted((instances[row].num_tokens for row in rows), reverse=True))
        share = tokens[np.searchsorted(tokens, tokens[-1] / torch.get_num_threads())]
        return min(self.micro_tokens, max(LEAST, int(share)))

    def _epoch(self, epoch: int) -> list[tuple[int, Int64s]]:
        """Return the steps of an epoch: for each, the index of its task and its instances."""
        if self.order[0] != epoch:
            steps = []
            for number, (name, _, instances, weight) in enumerate(self.tasks):
                for rows in self._passes(name, len(instances), weight, epoch):
                    steps += [(number, part) for part in self._split(name, instances, rows)]
            if len(self.tasks) > 1:
                order = permutation(make_key("tasks", self.seed, epoch), len(steps))
                steps = [steps[index] for index in order]
            self.order = epoch, steps
        return self.order[1]

    def _split(self, name: str, instances: Sequence[Instance], rows: Int64s) -> list[Int64s]:
        """Split a pass into steps of at most `batch_size` examples, but at least one instance for
        each rank.

        If the instances at the end are too few for the ranks, they are added to the last step.
        """
        fewest = self.ranks.world_size
        starts, held = [0], 0
        for index, row in enumerate(rows.tolist()):
            held += len(instances[row].counts)
            if held > self.batch_size and index - starts[-1] >= fewest:
                starts.append(index)
                held = len(instances[row].counts)
        if len(rows) - starts[-1] < fewest:
            starts.pop()
        if not starts:
            raise DataError(
                f"{name}: {len(rows)} texts or documents to train on for {fewest} processes; "
                f"expected one each at least: start fewer"
            )
        return np.split(rows, starts[1:])

    def _passes(self, name: str, count: int, weight: float, epoch: int) -> list[Int64s]:
        """Return the `weight` passes over a task in an epoch, each in random order.

        A fractional weight ends with a part of a pass.
        """
        passes: list[Int64s] = []
        while weight > 0:
            key = make_key(f"examples of {name}", self.seed, epoch, len(passes))
            rows = permutation(key, count)
            passes.append(rows[: max(1, round(min(1.0, weight) * count))])
            weight -= 1
        return passes


@dataclass
class _Validation:
    """Evaluates on dev while a seed is trained, keeps its best weights, and stops it early."""

    config: FinetuneConfig
    setups: Sequence[TaskSetup]
    learner: Learner
    hardware: TaskHardware
    steps_in_epoch: int
    options: SeedOptions
    run: SeedRun
    """The result with the weights that are kept."""
    steps: int = 0
    """The number of steps so far."""
    evaluations: int = 0
    without_improvement: int = 0
    """The number of evaluations since the best one."""
    best: float = -math.inf
    seconds: float = 0.0
    """The time of all evaluations."""

    def __call__(self) -> dict[str, float]:
        """Evaluate on dev and return the metrics.

        For several tasks, a metric's key begins with the name of its task, and the main metrics of
        all tasks come first.
        """
        began = time.monotonic()
        self.evaluations += 1
        now = SeedRun(self.run.seed, step=self.steps, best_epoch=self.steps / self.steps_in_epoch)
        for setup in self.setups:
            evaluate_task(now, setup, self.learner, self.hardware, self.options.on_tokens)
        is_better = self.evaluations == 1 or now.score > self.best
        self.best = now.score if is_better else self.best
        self.without_improvement = 0 if is_better else self.without_improvement + 1
        if is_better or self.config.keep == "last":
            now.state = weights_of(self.learner)
            self.run = now
        self.options.on_evaluation(now)
        self.seconds += time.monotonic() - began
        if len(self.setups) == 1:
            (only,) = now.evaluations.values()
            return {"epoch": now.best_epoch, **only.metrics}
        metrics = {f"{name}.{each.main}": each.score for name, each in now.evaluations.items()}
        for name, each in now.evaluations.items():
            metrics |= {f"{name}.{metric}": value for metric, value in each.metrics.items()}
        return {"epoch": now.best_epoch, **metrics}

    def is_enough(self) -> bool:
        """Return whether the score did not improve in the last `patience` evaluations."""
        patience = self.config.patience
        return patience is not None and self.without_improvement >= patience


def evaluate_task(
    run: SeedRun,
    setup: TaskSetup,
    learner: Learner,
    hardware: TaskHardware,
    on_tokens: Callable[[float], None] = silent,
) -> None:
    """Predict a task's dev examples, and store the predictions and their evaluation in `run`.

    Raises:
        Diverged: the predictions are not finite.
    """
    before = 0

    def on_progress(done: int, total: int | None) -> None:
        nonlocal before
        on_tokens((done - before) / EVALUATED)
        before = done

    how = hardware.precision, hardware.predicted_tokens, on_progress
    try:
        predictions = predict(learner, setup.dev, *how)
    except NotFinite as error:
        raise Diverged(f"seed {run.seed}: its predictions on dev are not finite") from error
    judge(run, setup, predictions)


def judge(run: SeedRun, setup: TaskSetup, predictions: Sequence[Prediction]) -> None:
    """Store predictions of a task's dev examples in `run`, with the settings that are best for
    them and their evaluation.
    """
    name, metric, examples = setup.task_name, setup.files.metric, setup.dev.examples
    tuned = kind_of(setup.task.kind).tune(setup.task, examples, predictions, metric)
    run.tasks[name], run.predictions[name] = tuned[0], list(tuned[1])
    run.evaluations[name] = evaluate(
        run.tasks[name], examples, run.predictions[name], main=metric, intervals=False, worst=0
    )
