"""Train a system that counts its text, or that has its own training loop, pass by pass.

After each pass the run is logged, evaluated and saved, so that it can be resumed after any pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from bertwright.config.run import RunConfig
from bertwright.data.loading.phases import PassBudget
from bertwright.data.shards import Shards
from bertwright.errors import BertwrightError, Interrupted
from bertwright.models.system import System
from bertwright.nn.objective import Learner
from bertwright.train.log import Log
from bertwright.train.signals import Signals
from bertwright.train.state import Position

LOWER = "begin from scratch with a lower --learning-rate where the system has one"


def own_loop(
    system: System,
    config: RunConfig,
    shards: Shards,
    learner: Learner,
    position: Position,
    log: Log,
    evaluate: Callable[[], dict[str, float]] | None,
    save: Callable[[Position], None],
) -> None:
    """Train from `position` to the end of the last pass; log, evaluate and save after each pass.

    Raises:
        Interrupted: a signal arrived; the run is saved up to the last complete pass.
        BertwrightError: the training loss or the held-out loss is not finite.
    """
    assert system.fit is not None
    if position.finished:
        return
    budget = PassBudget(config.epochs, config.minutes, position.step, position.seconds)
    before = budget.done(position.step)
    with Signals() as signals:
        for each in system.fit(config, shards, learner, budget):
            step, seconds = position.step + 1, budget.seconds
            spent, tokens = seconds - position.seconds, position.tokens + each.tokens
            counts = {"step": step, "tokens": tokens, "seconds": round(seconds, 3)}
            rate = round(each.tokens / max(1e-9, spent), 1)
            log.write(
                {**counts, "split": "train", **each.metrics, "tokens_per_second": rate},
                done=each.done,
                left=(1 - each.done) * spent / max(1e-9, each.done - before),
            )
            before = each.done
            if not math.isfinite(each.metrics.get("loss", 0.0)):
                raise BertwrightError(f"pass {step}: the loss is not finite; {LOWER}")
            if evaluate is not None:
                learner.eval()
                metrics = evaluate()
                learner.train()
                log.write({**counts, "split": "dev", **metrics})
                if not math.isfinite(metrics.get("loss", 0.0)):
                    raise BertwrightError(f"pass {step}: the held-out loss is not finite; {LOWER}")
            position = replace(
                position,
                step=step,
                tokens=tokens,
                seconds=seconds,
                validated=step,
                finished=each.done >= 1,
                records=log.records,
            )
            save(position)
            if signals.number and not position.finished:
                raise Interrupted(
                    signals.number,
                    f"interrupted after pass {step}, {each.done:.0%} of the run; it is saved: the "
                    "same command with --resume goes on",
                )
