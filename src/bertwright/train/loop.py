"""The training loop: it takes batches and steps the optimizer, whatever the model and the data.

A step encodes every micro-batch and divides its summed losses by the counts of the whole step over
all ranks (nn/objective.py), so the gradient does not depend on how a step is split. Then the norm
of the gradient is clipped, and the optimizers step. On a CPU, the cores compute micro-batches at
the same time (`train/cpu_step.py`). On a GPU, the host does not wait for a step's numbers
(`train/cuda_step.py`).

The seed of dropout is a function of (seed, step, micro-batch, rank). A step that was interrupted is
repeated from its beginning with the same result, which is how a run resumes in the middle of an
accumulation.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from bertwright.config.run import CheckpointConfig, LogConfig, ValidationConfig
from bertwright.cpu_threads import torch_threads
from bertwright.data.loading.phases import DataPosition
from bertwright.errors import BertwrightError, Interrupted
from bertwright.nn.batch import Batch
from bertwright.nn.objective import Learner, Loss
from bertwright.train.cpu_step import Cores, open_cores
from bertwright.train.cuda_step import Unread, end_step
from bertwright.train.hardware import Hardware, memory_gb
from bertwright.train.log import Log
from bertwright.train.loss_sums import NUMBERS, LossSums, Window, mean_losses, means, weighted
from bertwright.train.optim import Optimizers, clip_gradients
from bertwright.train.schedule import Budget
from bertwright.train.signals import Signals
from bertwright.train.state import Position
from bertwright.train.step_loss import share

MOST_SKIPPED = 5
"""A run ends after this many consecutive steps without a finite gradient."""


class StepSource(Protocol):
    """Provides the batches of a run."""

    def step(self, at: DataPosition, done: float) -> tuple[Sequence[Batch], DataPosition]:
        """Return this rank's micro-batches at a data position, and the next data position.

        `done` is the fraction of the run before the step.
        """


@dataclass(frozen=True)
class Step:
    """A step whose gradients are computed."""

    position: Position
    """The position before the step."""
    tokens: int
    """Its number of tokens, over all ranks."""
    rate: float
    """The learning rate to log."""
    sums: LossSums
    """The losses of its micro-batches on this rank."""


@dataclass
class Trainer:
    """Trains a learner until a budget is used up; logs, validates and saves."""

    learner: Learner
    optimizers: Optimizers
    begin_step: Callable[[float, float], float]
    """Called before each step with the completed fraction of the run and the size of one step.
    Unfreezes parameters, sets learning rates, and returns the rate to log."""
    clip_norm: float
    """The largest norm of the gradient, to which larger ones are scaled down; 0: no clipping."""
    source: StepSource
    budget: Budget
    seed: int
    """The seed of dropout."""
    hardware: Hardware
    log: Log | None
    """The log on the first rank, None on the others."""
    evaluate: Callable[[], dict[str, float]] | None
    """Returns the metrics on held-out data; None: there is none."""
    save: Callable[[Position], None]
    """Saves a checkpoint at a position."""
    when_to_log: LogConfig
    when_to_validate: ValidationConfig
    when_to_save: CheckpointConfig
    is_enough: Callable[[], bool] = lambda: False
    """Called after each validation; a true value ends the run early."""
    skipped: int = field(default=0, init=False)
    """The number of consecutive steps, up to now, that were skipped."""
    diverged: bool = field(default=False, init=False)
    """Whether `run` ended because losses were not finite."""
    good: int = field(default=-1, init=False)
    """The last step at which a loss was finite."""

    def __post_init__(self) -> None:
        self.ranks = self.hardware.ranks
        self.reads_late = self.ranks.world_size == 1 and self.ranks.device.type == "cuda"
        """Whether a step's numbers are read while the next step is computed."""
        self._wrapped = self.ranks.wrap(self.learner)
        self._names = list(self.learner.objectives)
        self._signals = Signals(alone=self.ranks.world_size == 1)
        self._cores: Cores | None = None
        self._unread: tuple[Step, Unread] | None = None
        self._window = Window()
        self._saved_at = -1
        self._since = (0, 0.0)

    def run(self, position: Position) -> Position:
        """Train from `position` until the budget is used up, and return the position reached.

        Raises:
            Interrupted: a signal arrived; the run was saved.
            BertwrightError: gradients are not finite for several steps, or the held-out loss is not
                (`diverged`).
        """
        began = time.monotonic() - position.seconds
        validated = saved = position
        self._begin(position)
        with (
            self._signals,
            open_cores(self.learner, self.hardware) as self._cores,
        ):
            while True:
                position = self._heed_signals(position, time.monotonic() - began)
                # every run has a step, however few its minutes are
                if position.step and self.budget.done(position.step, position.seconds) >= 1:
                    break
                before, position = position, self._step(position)
                if position is before:
                    continue  # a signal interrupted the step
                position = self._at(position, time.monotonic() - began)
                if self._log_is_due(position):
                    position = self._read_late(position)
                    self._write_log(position)
                paused = time.monotonic()
                if _due(self.when_to_validate, position, validated):
                    position = validated = self._validate(self._read_late(position))
                    if self.ranks.from_first(float(self.is_enough())):
                        break
                if _due(self.when_to_save, position, saved):
                    position = self._read_late(position)
                    if not self.skipped:
                        self._save(position)
                        saved = position
                self._window.paused += time.monotonic() - paused
            return self._finish(self._read_late(position), began)

    def _begin(self, position: Position) -> None:
        """Set the state of the loop to a position; sums of all ranks continue on the first."""
        self.good = position.validated
        self._saved_at = position.step or -1
        self._since = (position.step, position.seconds)
        self._window, self._unread = replace(position.window), None
        if not self.ranks.is_first:
            self._window = replace(self._window, sums=[], flops=0.0)
        self.learner.train()

    def _finish(self, position: Position, began: float) -> Position:
        """Log, validate and save at the end of the run, and return the finished position."""
        self._write_log(position)
        if position.validated < position.step:
            position = self._validate(position)
        if self.evaluate is None:
            self._check(position)
        position = self._at(position, time.monotonic() - began)
        position = replace(position, finished=True)
        self._save(position)
        return position

    def _heed_signals(self, position: Position, seconds: float) -> Position:
        """Return the position with the first rank's clock. If a signal arrived on any rank, save
        the run and raise Interrupted on all of them.
        """
        clock, stops = self.ranks.sum(
            [seconds if self.ranks.is_first else 0.0, float(self._signals.number)]
        )
        position = replace(position, seconds=clock)
        if stops:
            self._save(self._read_late(position))
            raise Interrupted(
                int(self._signals.number or signal.SIGTERM),
                f"interrupted before step {position.step + 1}; everything is saved: the same "
                "command with --resume goes on",
            )
        return position

    def _at(self, position: Position, seconds: float) -> Position:
        """Return the position with the first rank's clock."""
        return replace(position, seconds=self.ranks.from_first(seconds))

    def _step(self, position: Position) -> Position:
        """Do one step of the optimizer. If a signal interrupts it, return the position itself."""
        done = self.budget.done(position.step, position.seconds)
        batches, following = self.source.step(position.data, done)
        weights, tokens = self._weights(batches)
        seed_of = partial(self.dropout_seed, position.step)
        rate = self.begin_step(done, 1 / self.budget.steps if self.budget.steps else 0.0)
        self.optimizers.zero_grad()
        step = Step(position, tokens, rate, LossSums())
        backward, threads = self.backward, torch.get_num_threads()
        if self._cores is not None and len(batches) > 1:
            # Threads that share small operations, such as additions, mostly wait for each other.
            backward, threads = self._cores.backward, 1
        with torch_threads(threads):
            for number, losses in enumerate(backward(batches, weights, seed_of)):
                for name, loss in losses.items():
                    step.sums.add(name, loss)
                step.sums.flops += self.learner.flops(batches[number])
                is_last = number == len(batches) - 1
                if self._signals.number and not is_last and self.ranks.world_size == 1:
                    return position
            after = replace(
                position,
                step=position.step + 1,
                tokens=position.tokens + tokens,
                data=following,
            )
            if self.reads_late:
                unread = end_step(self.learner, self.optimizers, step.sums, self.clip_norm)
                return self._read_late(after, (step, unread))
            norm = clip_gradients(self.learner.parameters(), self.clip_norm)
            if not self._count(step, step.sums.numbers(self._names), norm):
                return replace(after, tokens=position.tokens)
            self.optimizers.step()
        return after

    def _weights(self, batches: Sequence[Batch]) -> tuple[dict[str, float], int]:
        """Return the factor of each objective's summed losses, and the number of tokens.

        The factors divide by the counts of the whole step; gradients are averaged over the ranks.
        """
        counts_of = [self.learner.counts(batch) for batch in batches]
        counts = [float(sum(each.get(name, 0) for each in counts_of)) for name in self._names]
        tokens = sum(batch.num_tokens for batch in batches)
        *counts, all_tokens = self.ranks.sum([*counts, float(tokens)])
        weights = {
            name: self.ranks.world_size / max(1.0, count)
            for name, count in zip(self._names, counts, strict=True)
        }
        return weights, int(all_tokens)

    def dropout_seed(self, step: int, micro_batch: int) -> int:
        """Return a dropout seed that is unique to this step, micro-batch and rank."""
        number = (step * 65536 + micro_batch) * self.ranks.world_size + self.ranks.rank
        return (self.seed * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9) % 2**63

    def backward(
        self, batches: Sequence[Batch], weights: dict[str, float], seed_of: Callable[[int], int]
    ) -> Iterator[dict[str, Loss]]:
        """Yield the losses of each micro-batch after its backward pass, one after the other.

        `seed_of` returns the dropout seed of a micro-batch, given its number.
        """
        run = self.ranks.evened(self._with_step_loss(batches, seed_of))
        for number, (batch, counts_here) in enumerate(run):
            torch.manual_seed(seed_of(number))
            with self.ranks.together(self._wrapped, number == len(run) - 1):
                with self.hardware.autocast():
                    losses = self._wrapped(batch)
                total = weighted(losses, weights) * counts_here
                total.backward()  # type: ignore[no-untyped-call]
            if counts_here:
                yield losses

    def _with_step_loss(
        self, batches: Sequence[Batch], seed_of: Callable[[int], int]
    ) -> Sequence[Batch]:
        """Return the micro-batches. If an objective relates the vectors of the whole step to each
        other, each micro-batch has the gradients of its vectors (`train/step_loss.py`).

        The vectors are computed in a pass before, with the same dropout as in the pass with
        gradients. A step of one micro-batch on one rank does not need this pass.
        """
        objective = self.learner.step_objective(batches[0])
        if objective is None or (len(batches) == 1 and self.ranks.world_size == 1):
            return batches
        vectors: list[Tensor] = []
        with torch.no_grad(), self.hardware.autocast():
            for number, batch in enumerate(batches):
                torch.manual_seed(seed_of(number))
                vectors.append(self.learner.step_vectors(batch))
        return share(objective, batches, vectors, self.ranks)

    def _read_late(self, now: Position, queued: tuple[Step, Unread] | None = None) -> Position:
        """Read the step that was queued before, if there is one, and replace it by `queued`.

        Return `now`, without the tokens of the step that was read if it was skipped.
        """
        before, self._unread = self._unread, queued
        if before is None:
            return now
        step, unread = before
        losses, norm = unread.read()
        if self._count(step, step.sums.read(self._names, losses), norm):
            return now
        return replace(now, tokens=now.tokens - step.tokens)

    def _count(self, step: Step, numbers: list[float], norm: float) -> bool:
        """Add a step to the window of the log, if its numbers are finite. Return whether they are,
        the same on all ranks: otherwise the weights must not change.
        """
        bad_here = 0.0 if all(map(math.isfinite, numbers)) else 1.0
        bad_losses = self.ranks.sum([bad_here])[0]
        if not bad_losses:
            self.good = step.position.step
            if math.isfinite(norm):
                self.skipped = 0
                self._window.join(numbers, step.sums.flops, norm, step.rate)
                return True
        what = "loss is not finite" if bad_losses else f"norm of the gradient is {norm}"
        self._skip(step.position, what)
        return False

    def _skip(self, position: Position, what: str) -> None:
        """Leave out the step after a position. Raise BertwrightError after MOST_SKIPPED of them."""
        if not self.reads_late:  # otherwise these are the gradients of the next step
            self.optimizers.zero_grad()
        self.skipped += 1
        number = position.step + 1
        if self.log is not None:
            self.log.say(
                f"step {number}: the {what}; the step is left out, the weights stay as they were"
            )
        if self.skipped < MOST_SKIPPED:
            return
        unchanged_since = number - self.skipped
        position = self._validate(position)
        if self.good >= unchanged_since:  # otherwise these weights are not worth continuing
            self._save(position)
            self.good = position.step
        self.diverged = True
        raise BertwrightError(f"step {number}: the {what}, {self.skipped} steps in a row")

    def _log_is_due(self, position: Position) -> bool:
        if self.when_to_log.every_steps is not None:
            return position.step % self.when_to_log.every_steps == 0
        return position.seconds - self._window.seconds >= self.when_to_log.every_seconds

    def _write_log(self, position: Position) -> None:
        """Log one line about the steps since the last line, unless all of them were skipped."""
        window, sums = self._window, self._all_sums()
        self._window = Window(position.step, position.tokens, position.seconds)
        if not window.steps:
            return
        seconds = max(1e-9, position.seconds - window.seconds - window.paused)
        record: dict[str, float | int | str] = {
            **position.counted("train"),
            **means(self._names, sums[:-1]),
            "learning_rate": window.learning_rate,
            "gradient_norm": window.gradient_norm / window.steps,
            "tokens_per_second": round((position.tokens - window.tokens) / seconds, 1),
            "utilization": sums[-1] / seconds / (self.hardware.peak * self.ranks.world_size),
            "memory_gb": round(memory_gb(self.ranks.device), 3),
        }
        if self.log is not None:
            done = self.budget.done(position.step, position.seconds)
            left = self.budget.left(position.step, position.seconds, self._since)
            self.log.write(record, done=done, left=left)

    def _all_sums(self) -> list[float]:
        """Return the window's sums and operations over all ranks."""
        sums = self._window.sums or [0.0] * (NUMBERS * len(self._names))
        return self.ranks.sum([*sums, self._window.flops])

    def _validate(self, position: Position) -> Position:
        """Evaluate on the held-out documents, whose loss must be finite, and return the validated
        position.
        """
        if self.evaluate is not None:
            if not evaluate_and_log(self.learner, self.evaluate, self.log, position):
                self.diverged = True
                raise BertwrightError(f"step {position.step}: the held-out loss is not finite")
            self.good = position.step
        return replace(position, validated=position.step)

    def _check(self, position: Position) -> None:
        """Check that the loss on the next training batch is finite, because no loss has been
        computed with the weights of the last step.
        """
        batches, _ = self.source.step(position.data, 1.0)
        self.learner.eval()
        losses = mean_losses(self.learner, batches[:1], self.hardware)
        self.learner.train()
        if not math.isfinite(losses.get("loss", 0.0)):
            self.diverged = True
            raise BertwrightError(f"step {position.step}: the loss after it is not finite")

    def _save(self, position: Position) -> None:
        """Save a checkpoint with the state of the log, unless this position is saved already."""
        if position.step == self._saved_at and not position.finished:
            return
        *sums, flops = self._all_sums()
        window = replace(self._window, sums=sums, flops=flops)
        records = self.log.records if self.log is not None else 0
        self.save(replace(position, window=window, records=records))
        self._saved_at = position.step


def evaluate_and_log(
    learner: Learner,
    evaluate: Callable[[], dict[str, float]],
    log: Log | None,
    position: Position,
) -> bool:
    """Evaluate on held-out data and log the metrics. Return whether their loss is finite."""
    learner.eval()
    metrics = evaluate()
    learner.train()
    if log is not None:
        log.write({**position.counted("dev"), **metrics})
    return math.isfinite(metrics.get("loss", 0.0))


def _due(config: ValidationConfig | CheckpointConfig, now: Position, last: Position) -> bool:
    """Return whether something that repeats by steps, or by time, is due."""
    if config.every_steps is not None:
        return now.step % config.every_steps == 0
    return now.seconds - last.seconds >= 60 * config.every_minutes
