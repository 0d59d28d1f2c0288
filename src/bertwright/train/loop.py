"""The training loop: it takes batches and steps the optimizer, whatever the model and the data.

A step encodes every micro-batch and divides its summed losses by the counts of the whole step over
all ranks (nn/objective.py), so the gradient does not depend on how a step is split. Then the norm
of the gradient is clipped, and the optimizers step.

On a GPU the host does not wait for a step: the device decides whether its numbers are finite, and
they are read after the next step has been queued.

The seed of dropout is a function of (seed, step, micro-batch, rank). A step that was interrupted is
repeated from its beginning with the same result, which is how a run resumes in the middle of an
accumulation.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from bertwright.config.run import CheckpointConfig, LogConfig, ValidationConfig
from bertwright.cpu_threads import one_core_each, own_draws, torch_threads
from bertwright.data.loading.phases import DataPosition
from bertwright.errors import BertwrightError, Interrupted
from bertwright.nn.batch import Batch
from bertwright.nn.objective import Learner, Loss
from bertwright.train.cpu_width import Width
from bertwright.train.distributed import Ranks
from bertwright.train.hardware import Precision, memory_gb
from bertwright.train.log import Log
from bertwright.train.loss_sums import NUMBERS, LossSums, Window, mean_losses, means
from bertwright.train.optim import Optimizers, add_gradients, clip_gradients, clip_unread
from bertwright.train.schedule import Budget
from bertwright.train.signals import Signals
from bertwright.train.state import Position
from bertwright.train.step_loss import share

MOST_SKIPPED = 5
"""A run ends after this many consecutive steps without a finite gradient."""


@dataclass(frozen=True)
class Unread:
    """A step that was queued on the device, whose numbers have not been read yet."""

    position: Position
    """The position before the step."""
    tokens: int
    rate: float
    sums: LossSums
    numbers: Tensor
    """The numbers of `LossSums.unread` and the norm of the gradient, which are being copied to the
    host.
    """
    arrived: torch.cuda.Event | None
    """The event after which the numbers are on the host; None: they are already."""


class StepSource(Protocol):
    """Provides the batches of a run."""

    def step(self, at: DataPosition, done: float) -> tuple[Sequence[Batch], DataPosition]:
        """Return this rank's micro-batches at a data position, and the next data position.

        `done` is the fraction of the run before the step.
        """


@dataclass(frozen=True)
class LoopConfig:
    """The settings of the loop."""

    seed: int
    precision: Precision
    peak: float
    """The highest measured rate of this machine, in floating-point operations per second."""
    clip_norm: float
    """The largest norm of the gradient, to which larger ones are scaled down; 0: no clipping."""
    log: LogConfig
    validation: ValidationConfig
    checkpoint: CheckpointConfig


class Trainer:
    """Trains a learner until a budget is used up; logs, validates and saves."""

    def __init__(
        self,
        learner: Learner,
        optimizers: Optimizers,
        source: StepSource,
        budget: Budget,
        config: LoopConfig,
        ranks: Ranks,
        log: Log | None,
        flops: Callable[[Batch], float],
        evaluate: Callable[[], dict[str, float]] | None,
        save: Callable[[Position], None],
        begin_step: Callable[[float, float], float],
        is_enough: Callable[[], bool] = lambda: False,
        check_end: bool = False,
    ) -> None:
        """Connect the parts of a training run.

        Args:
            learner: the learner to train.
            optimizers: the optimizers of its parameters.
            source: provides the batches.
            budget: how long to train.
            config: the settings of the loop.
            ranks: the processes of the run.
            log: the log on the first rank, None on the others.
            flops: returns the operations of a micro-batch.
            evaluate: returns the metrics on held-out data; None: there is none.
            save: saves a checkpoint at a position.
            begin_step: given the fraction of the run that is done and the fraction that a step is,
                sets what is trained at which rate, and returns the rate to log.
            is_enough: called after each validation; a true value ends the run early.
            check_end: whether to compute a loss after the last step if nothing is evaluated.
        """
        self.learner = learner
        self.wrapped = ranks.wrap(learner)
        self.optimizers = optimizers
        self.source = source
        self.budget = budget
        self.config = config
        self.ranks = ranks
        self.log = log
        self.flops = flops
        self.evaluate = evaluate
        self.save = save
        self.begin_step = begin_step
        self.is_enough = is_enough
        self.check_end = check_end
        self.skipped = 0
        """The number of consecutive steps, up to now, that were skipped."""
        self.diverged = False
        """Whether `run` ended because losses were not finite."""
        self.good = -1
        """The last step at which a loss was finite."""
        self._pools: list[ThreadPoolExecutor] = []
        """Pools of 1, 2, ... threads, if micro-batches are computed in parallel."""
        self._width = Width(1)
        self._signals = Signals(alone=ranks.world_size == 1)
        self.reads_late = ranks.world_size == 1 and ranks.device.type == "cuda"
        """Whether a step's numbers are read while the next step is computed."""
        self._unread: Unread | None = None
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
        self.good = position.validated
        began = time.monotonic() - position.seconds
        validated = saved = position
        self._saved_at = position.step or -1
        self._since = (position.step, position.seconds)
        self._window, self._unread = replace(position.window), None
        if not self.ranks.is_first:  # the saved sums are of all ranks; the first continues them
            self._window = replace(self._window, sums=[], flops=0.0)
        self.learner.train()
        with self._signals, self._cores():
            while True:
                position, stop = self._agree(position, time.monotonic() - began)
                if stop:
                    self._save(self._all_read(position))
                    raise Interrupted(
                        stop,
                        f"interrupted before step {position.step + 1}; everything is saved: "
                        "the same command with --resume goes on",
                    )
                # every run has a step, however few its minutes are
                if position.step and self.budget.done(position.step, position.seconds) >= 1:
                    break
                before, position = position, self._step(position)
                if position is before:
                    continue  # a signal interrupted the step
                seconds = self.ranks.from_first(time.monotonic() - began)
                position = replace(position, seconds=seconds)
                if self._log_is_due(position):
                    position = self._all_read(position)
                    self._tell(position)
                paused = time.monotonic()
                if _due(self.config.validation, position, validated):
                    position = self._validate(self._all_read(position))
                    validated = position
                    if self.ranks.from_first(float(self.is_enough())):
                        break
                if _due(self.config.checkpoint, position, saved):
                    position = self._all_read(position)
                    if not self.skipped:
                        self._save(position)
                        saved = position
                self._window.paused += time.monotonic() - paused
            position = self._all_read(position)
            self._tell(position)
            if position.validated < position.step:
                position = self._validate(position)
            if self.evaluate is None and self.check_end:
                self._check(position)
            seconds = self.ranks.from_first(time.monotonic() - began)
            position = replace(position, seconds=seconds, finished=True)
            self._save(position)
        return position

    def _save(self, position: Position) -> None:
        """Save a checkpoint with the state of the log, unless this position is saved already."""
        if position.step == self._saved_at and not position.finished:
            return
        sums = self._all_sums()
        window = replace(self._window, sums=sums[:-1], flops=sums[-1])
        records = self.log.records if self.log is not None else 0
        self.save(replace(position, window=window, records=records))
        self._saved_at = position.step

    def _all_sums(self) -> list[float]:
        sums = self._window.sums or [0.0] * (NUMBERS * len(self.learner.objectives))
        return self.ranks.sum([*sums, self._window.flops])

    def _agree(self, position: Position, seconds: float) -> tuple[Position, int]:
        """Return the position with the first rank's clock, and the signal that arrived (0: none),
        both the same on all ranks.
        """
        clock, stops = self.ranks.sum(
            [seconds if self.ranks.is_first else 0.0, float(self._signals.number)]
        )
        stop = int(self._signals.number or signal.SIGTERM) if stops else 0
        return replace(position, seconds=clock), stop

    def _step(self, position: Position) -> Position:
        """Do one step of the optimizer. If a signal interrupts it, return the position itself."""
        done = self.budget.done(position.step, position.seconds)
        batches, following = self.source.step(position.data, done)
        names = list(self.learner.objectives)
        batch_counts = [self.learner.counts(batch) for batch in batches]
        rank_counts = [float(sum(counts.get(name, 0) for counts in batch_counts)) for name in names]
        tokens = sum(b.num_tokens for b in batches)
        *counts, all_tokens = self.ranks.sum([*rank_counts, float(tokens)])
        width = 1 / self.budget.steps if self.budget.steps else 0.0
        rate = self.begin_step(done, width)
        self.optimizers.zero_grad()
        sums = LossSums()
        weights = {
            name: self.ranks.world_size / max(1.0, count)
            for name, count in zip(names, counts, strict=True)
        }
        at_once = bool(self._pools) and len(batches) > 1
        passes = self._at_once if at_once else self._in_turn
        began = time.perf_counter(), time.process_time()
        # Threads that share a small operation, such as an addition, mostly wait for each other.
        with torch_threads(1 if at_once else torch.get_num_threads()):
            for number, losses in enumerate(passes(position.step, batches, weights)):
                for name, loss in losses.items():
                    sums.add(name, loss)
                sums.flops += self.flops(batches[number])
                last = number == len(batches) - 1
                if self._signals.number and not last and self.ranks.world_size == 1:
                    return position
            if self.reads_late:
                after = replace(
                    position,
                    step=position.step + 1,
                    tokens=position.tokens + int(all_tokens),
                    data=following,
                )
                return self._queue(
                    Unread(position, int(all_tokens), rate, sums, *self._end(sums)), after
                )
            norm = clip_gradients(self.learner.parameters(), self.config.clip_norm)
            numbers = sums.numbers(names)
            if not self._finite(position, norm, numbers):
                return replace(position, step=position.step + 1, data=following)
            self.optimizers.step(self._width.now if at_once else None)
        if at_once:
            seconds, used = time.perf_counter() - began[0], time.process_time() - began[1]
            self._width.measure(tokens, seconds, used)
        self._window.join(numbers, sums.flops, norm, rate)
        return replace(
            position,
            step=position.step + 1,
            tokens=position.tokens + int(all_tokens),
            data=following,
        )

    @contextmanager
    def _cores(self) -> Iterator[None]:
        """Provide one thread for each core of a CPU, if micro-batches can be computed in
        parallel.
        """
        threads = torch.get_num_threads()
        alone = self.ranks.world_size == 1 and self.ranks.device.type == "cpu"
        if threads == 1 or not alone or not all(map(_may_run_beside, self.learner.modules())):
            yield
            return
        with ExitStack() as stack:
            self._pools = [stack.enter_context(one_core_each(n + 1)) for n in range(threads)]
            self._width = Width(threads, self._say)
            yield
        self._pools = []

    def _shared(self, step: int, batches: Sequence[Batch]) -> Sequence[Batch]:
        """Return the micro-batches. If an objective relates the vectors of the whole step to each
        other, each micro-batch has the gradients of its vectors (`train/step_loss.py`).

        The vectors are computed in a pass before, with the same dropout as in the pass with
        gradients. A step of one micro-batch on one rank does not need this pass.
        """
        objective = self.learner.step_objective(batches[0])
        if objective is None or (len(batches) == 1 and self.ranks.world_size == 1):
            return batches

        def vectors_of(number: int) -> Tensor:
            torch.manual_seed(self.dropout_seed(step, number))
            with torch.no_grad(), self._autocast():
                return self.learner.step_vectors(batches[number])

        return share(objective, batches, list(map(vectors_of, range(len(batches)))), self.ranks)

    def _in_turn(
        self, step: int, batches: Sequence[Batch], weights: dict[str, float]
    ) -> Iterator[dict[str, Loss]]:
        """Yield the losses of each micro-batch after its backward pass, one after the other."""
        run = self.ranks.evened(self._shared(step, batches))
        for number, (batch, counts_here) in enumerate(run):
            torch.manual_seed(self.dropout_seed(step, number))
            with self.ranks.together(self.wrapped, number == len(run) - 1):
                with self._autocast():
                    losses = self.wrapped(batch)
                total = _weighted(losses, weights) * counts_here
                total.backward()  # type: ignore[no-untyped-call]
            if counts_here:
                yield losses

    def _at_once(
        self, step: int, batches: Sequence[Batch], weights: dict[str, float]
    ) -> Iterator[dict[str, Loss]]:
        """Yield the losses of each micro-batch, computing one on each core.

        Gradients are added in order, so a step is reproducible bit for bit, whatever the timing.
        """
        parameters = [p for p in self.learner.parameters() if p.requires_grad]
        pool = self._pools[self._width.now - 1]
        threads = max(1, self._width.most // len(batches))
        numbers = range(len(batches))
        objective = self.learner.step_objective(batches[0])
        # Where each micro-batch has a core, all are in memory anyway, and need no second pass,
        # unless they train other objectives too, which read more than the vectors.
        encodes_once = (
            objective is not None
            and len(batches) <= self._width.now
            and all(len(self.learner.active(batch)) == 1 for batch in batches)
        )
        vectors: list[Tensor] = []

        def vectors_of(number: int) -> Tensor:
            torch.set_num_threads(threads)
            draws = own_draws(self.dropout_seed(step, number))
            with torch.set_grad_enabled(encodes_once), draws, self._autocast():
                return self.learner.step_vectors(batches[number])

        def run(number: int) -> tuple[dict[str, Loss], Sequence[Tensor | None]]:
            torch.set_num_threads(threads)
            with own_draws(self.dropout_seed(step, number)), self._autocast():
                losses: dict[str, Loss] = (
                    self.learner.losses_of(vectors[number], batches[number])
                    if encodes_once
                    else self.learner(batches[number])
                )
            total = _weighted(losses, weights)
            gradients = torch.autograd.grad(total, parameters, allow_unused=True)
            return losses, gradients

        if objective is not None:
            vectors = list(pool.map(vectors_of, numbers))
            detached = [each.detach() for each in vectors]
            batches = share(objective, batches, detached, self.ranks)
        for losses, gradients in pool.map(run, numbers):
            add_gradients(parameters, gradients)
            yield losses

    def dropout_seed(self, step: int, micro_batch: int) -> int:
        """Return a dropout seed that is unique to this step, micro-batch and rank."""
        number = (step * 65536 + micro_batch) * self.ranks.world_size + self.ranks.rank
        return (self.config.seed * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9) % 2**63

    def _end(self, sums: LossSums) -> tuple[Tensor, torch.cuda.Event | None]:
        """Clip and step on the device, unless a number is not finite; return the numbers, which are
        being copied to the host.
        """
        norm = clip_unread(self.learner.parameters(), self.config.clip_norm)
        losses = sums.unread(list(self.learner.objectives))
        numbers = (
            norm.double()[None] if losses is None else torch.cat([losses, norm.double()[None]])
        )
        self.optimizers.step(good=numbers.isfinite().all())
        on_host = numbers.to("cpu", non_blocking=True)
        if not numbers.is_cuda:
            return on_host, None
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        return on_host, arrived

    def _queue(self, step: Unread, after: Position) -> Position:
        """Read the previous step while the device computes this one, and return the position after
        it.
        """
        before, self._unread = self._unread, step
        return after if before is None else self._read(before, after)

    def _all_read(self, position: Position) -> Position:
        """Read the step that was queued last, if it is unread, and return the position after it."""
        step, self._unread = self._unread, None
        return position if step is None else self._read(step, position)

    def _read(self, step: Unread, now: Position) -> Position:
        """Add a step's numbers to the log's window. Return `now`, without the tokens of a step that
        was skipped.
        """
        if step.arrived is not None:
            step.arrived.synchronize()
        *losses, norm = step.numbers.tolist()
        numbers = step.sums.read(list(self.learner.objectives), losses)
        if self._finite(step.position, norm, numbers):
            self._window.join(numbers, step.sums.flops, norm, step.rate)
            return now
        return replace(now, tokens=now.tokens - step.tokens)

    def _finite(self, position: Position, norm: float, numbers: list[float]) -> bool:
        """Return whether a step may change the weights, the same on all ranks.

        Raises:
            BertwrightError: gradients of MOST_SKIPPED consecutive steps are not finite.
        """
        bad_here = 0.0 if all(map(math.isfinite, numbers)) else 1.0
        bad_losses = self.ranks.sum([bad_here])[0]
        if not bad_losses:
            self.good = position.step
            if math.isfinite(norm):
                self.skipped = 0
                return True
        if not self.reads_late:  # otherwise these are the gradients of the next step
            self.optimizers.zero_grad()
        self.skipped += 1
        number = position.step + 1
        what = "loss is not finite" if bad_losses else f"norm of the gradient is {norm}"
        self._say(f"step {number}: the {what}; the step is left out, the weights stay as they were")
        if self.skipped >= MOST_SKIPPED:
            unchanged_since = number - self.skipped
            position = self._validate(position)
            if self.good >= unchanged_since:  # otherwise these weights are not worth continuing
                self._save(position)
                self.good = position.step
            self.diverged = True
            raise BertwrightError(f"step {number}: the {what}, {self.skipped} steps in a row")
        return False

    def _autocast(self) -> torch.autocast:
        enabled = self.config.precision == "bf16"
        return torch.autocast(self.ranks.device.type, torch.bfloat16, enabled=enabled)

    def _log_is_due(self, position: Position) -> bool:
        if self.config.log.every_steps is not None:
            return position.step % self.config.log.every_steps == 0
        return position.seconds - self._window.seconds >= self.config.log.every_seconds

    def _tell(self, position: Position) -> None:
        """Log one line about the steps since the last line, unless all of them were skipped."""
        window, sums = self._window, self._all_sums()
        self._window = Window(position.step, position.tokens, position.seconds)
        if not window.steps:
            return
        seconds = max(1e-9, position.seconds - window.seconds - window.paused)
        record: dict[str, float | int | str] = {
            "step": position.step,
            "tokens": position.tokens,
            "seconds": round(position.seconds, 3),
            "split": "train",
            **means(list(self.learner.objectives), sums[:-1]),
            "learning_rate": window.learning_rate,
            "gradient_norm": window.gradient_norm / window.steps,
            "tokens_per_second": round((position.tokens - window.tokens) / seconds, 1),
        }
        record["utilization"] = sums[-1] / seconds / (self.config.peak * self.ranks.world_size)
        record["memory_gb"] = round(memory_gb(self.ranks.device), 3)
        if self.log is not None:
            done = self.budget.done(position.step, position.seconds)
            left = self.budget.left(position.step, position.seconds, self._since)
            self.log.write(record, done=done, left=left)

    def _validate(self, position: Position) -> Position:
        """Evaluate on the held-out documents, if there are any, and return the validated position.

        Raises:
            BertwrightError: their loss is not finite.
        """
        if self.evaluate is not None:
            self.learner.eval()
            metrics = self.evaluate()
            self.learner.train()
            record: dict[str, float | int | str] = {
                "step": position.step,
                "tokens": position.tokens,
                "seconds": round(position.seconds, 3),
                "split": "dev",
                **metrics,
            }
            if self.log is not None:
                self.log.write(record)
            if not math.isfinite(metrics.get("loss", 0.0)):
                self.diverged = True
                raise BertwrightError(f"step {position.step}: the held-out loss is not finite")
            self.good = position.step
        return replace(position, validated=position.step)

    def _check(self, position: Position) -> None:
        """Compute the loss on the next training batch, because no loss has been computed with the
        weights of the last step.

        Raises:
            BertwrightError: the loss is not finite.
        """
        batches, _ = self.source.step(position.data, 1.0)
        self.learner.eval()
        losses = mean_losses(self.learner, batches[:1], self.config.precision, self.ranks)
        self.learner.train()
        if not math.isfinite(losses.get("loss", 0.0)):
            self.diverged = True
            raise BertwrightError(f"step {position.step}: the loss after it is not finite")

    def _say(self, text: str) -> None:
        if self.log is not None:
            self.log.say(text)


def _may_run_beside(module: nn.Module) -> bool:
    """Return whether several threads may compute this module in parallel.

    PyTorch's LSTM draws its dropout from the generator that all threads share, and a compiled
    module is made for one thread.
    """
    draws = isinstance(module, nn.RNNBase) and module.dropout > 0
    return not draws and module._compiled_call_impl is None


def _weighted(losses: dict[str, Loss], weights: dict[str, float]) -> Tensor:
    return torch.stack([loss.total * weights[name] for name, loss in losses.items()]).sum()


def _due(config: ValidationConfig | CheckpointConfig, now: Position, last: Position) -> bool:
    """Return whether something that repeats by steps, or by time, is due."""
    if config.every_steps is not None:
        return now.step % config.every_steps == 0
    return now.seconds - last.seconds >= 60 * config.every_minutes
