"""Train a system that counts its text, or that has its own training loop, pass by pass.

After each pass the run is logged, evaluated and saved, so that it can be resumed after any pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from bertwright.data.loading.phases import Pass, PassBudget
from bertwright.errors import BertwrightError, Interrupted
from bertwright.nn.objective import Learner
from bertwright.train.log import Log
from bertwright.train.loop import evaluate_and_log
from bertwright.train.signals import Signals
from bertwright.train.state import Position

LOWER = "begin from scratch with a lower --learning-rate where the system has one"


@dataclass
class PassTrainer:
    """Trains a learner pass by pass; logs, evaluates and saves after each."""

    learner: Learner
    passes: Iterator[Pass]
    """Trains the learner, and yields the result of each pass."""
    budget: PassBudget
    log: Log
    evaluate: Callable[[], dict[str, float]] | None
    """Returns the metrics on held-out data; None: there is none."""
    save: Callable[[Position], None]
    """Saves a checkpoint at a position."""

    def run(self, position: Position) -> Position:
        """Train from `position` to the end of the last pass, and return the position reached.

        If a signal arrives, the run ends with `Interrupted` after the next complete pass, which is
        saved.
        """
        done = self.budget.done(position.step)
        with Signals() as signals:
            for each in self.passes:
                before, position = position, self._after(each, position)
                self._write_log(each, position, before, done)
                done = each.done
                if not math.isfinite(each.metrics.get("loss", 0.0)):
                    raise BertwrightError(f"pass {position.step}: the loss is not finite; {LOWER}")
                self._validate(position)
                position = replace(
                    position,
                    validated=position.step,
                    finished=done >= 1,
                    records=self.log.records,
                )
                self.save(position)
                if signals.number and not position.finished:
                    raise Interrupted(
                        signals.number,
                        f"interrupted after pass {position.step}, {done:.0%} of the run; it is "
                        "saved: the same command with --resume goes on",
                    )
        return position

    def _after(self, each: Pass, position: Position) -> Position:
        """Return the position after a pass."""
        return replace(
            position,
            step=position.step + 1,
            tokens=position.tokens + each.tokens,
            seconds=self.budget.seconds,
        )

    def _write_log(self, each: Pass, now: Position, before: Position, done: float) -> None:
        """Log one line about a pass, before which the fraction `done` of the run was done."""
        seconds = now.seconds - before.seconds
        rate = round(each.tokens / max(1e-9, seconds), 1)
        self.log.write(
            {**now.counted("train"), **each.metrics, "tokens_per_second": rate},
            done=each.done,
            left=(1 - each.done) * seconds / max(1e-9, each.done - done),
        )

    def _validate(self, position: Position) -> None:
        """Evaluate on the held-out documents, if there are any; their loss must be finite."""
        if self.evaluate is None:
            return
        if not evaluate_and_log(self.learner, self.evaluate, self.log, position):
            raise BertwrightError(f"pass {position.step}: the held-out loss is not finite; {LOWER}")
