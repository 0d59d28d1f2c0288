"""Pre-train a system with its budget, which is the same time or number of tokens for all of them.

A system that is trained in passes over the text makes at most `Entry.passes`, because more do not
improve it.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from bertwright.checkpoint import checkpoint, find
from bertwright.config import values
from bertwright.config.compare import CompareConfig
from bertwright.config.run import RunConfig, StepRun
from bertwright.data.shards import open_shards
from bertwright.machine import core_times, waited_since
from bertwright.models.catalogue import make_run, trainable
from bertwright.models.ngram.config import NgramConfig
from bertwright.nn.objective import Learner
from bertwright.progress import silent
from bertwright.recipes import pretrain as pretraining
from bertwright.recipes.compare.steps import OVERHEAD, Comparison, Done, SystemStep
from bertwright.recipes.compare.systems import Entry
from bertwright.recipes.compare.text import TextFolders
from bertwright.recipes.examine import write_findings
from bertwright.recipes.run_folder import ENVIRONMENT
from bertwright.report.numbers import count
from bertwright.report.pages import write_report
from bertwright.report.read import read_run
from bertwright.train.log import METRICS, read_records

VALIDATION_TOKENS = 8192
"""The number of tokens of a validation, which only serves the curve of a run, because the held-out
text is measured separately. Validation takes time from training: with 32,768 tokens, it took nearly
half of 90 seconds on a busy computer.
"""


def run_of(
    entry: Entry, config: CompareConfig, data: Path, out: Path, seed: int, **length: Any
) -> RunConfig:
    """Return the configuration of a system's run; `length` has the keys that set its length."""
    kind = trainable()[entry.system]
    every = max(0.5, config.minutes_each / 4)
    wanted: dict[str, Any] = {
        "data": str(data),
        "out": str(out),
        "model": entry.model,
        "seed": seed,
        "device": config.device,
        "checkpoint": {"keep": 1},
        **length,
    }
    if issubclass(kind, StepRun):
        wanted["checkpoint"]["every_minutes"] = every
        wanted["log"] = {"every_seconds": min(5.0, max(0.5, 2 * config.minutes_each))}
        wanted["validation"] = {"every_minutes": every, "tokens": VALIDATION_TOKENS}
    given = values.merge(wanted, entry.settings)
    if entry.name == "cove":
        given["word_vectors"] = str(out.parents[1] / entry.needs / out.name)
    size = open_shards(data, verify=False).vocab_size
    most = given.get("architecture", {}).get("output_size")
    if most is not None:
        given = values.merge(given, {"architecture": {"output_size": min(most, size)}})
    return make_run(kind, given)


@dataclass(frozen=True)
class Pretrain(SystemStep):
    """Pre-train a system, or continue its run."""

    measure = "pretrain"
    shown = "pre-training"

    def needs(self, of: Comparison) -> Sequence[Pretrain]:
        return [Pretrain(of.systems[self.entry.needs], self.seed)] if self.entry.needs else []

    def seconds(self, of: Comparison) -> float:
        return 60 * of.config.minutes_each + OVERHEAD

    def do(self, of: Comparison, say: Callable[[str], None]) -> Done:
        entry, config = self.entry, of.config
        out, data = of.run_folder(entry, self.seed), TextFolders(of.out).shards / entry.data
        out.parent.mkdir(parents=True, exist_ok=True)
        run = run_of(
            entry, config, data, out, self.seed, **_length(entry, config, data, out, self.seed)
        )
        before = core_times()
        pretraining.pretrain(run, say, resume=True)
        waited = waited_since(before)
        last = read_records(out / METRICS)[-1]
        named = of.names if len(of.names) == open_shards(data, verify=False).num_documents else None
        has_page = write_page(out, say, partial(write_findings, names=named))
        row = self.row(
            run=of.inside(out),
            page=has_page,
            minutes=config.minutes_each if config.tokens is None else None,
            seconds=float(last["seconds"]),
            waited=waited,
            parameters=numbers_of(checkpoint.load(find.find_checkpoint(out)).learner),
            tokens=int(last["tokens"]),
            passes=None if isinstance(run, StepRun) else int(last["step"]),
        )
        environment = json.loads((out / ENVIRONMENT).read_text(encoding="utf-8"))
        notes = [
            f"{entry.name}-{self.seed}: {row.parameters:,} parameters, {count(row.tokens)} tokens "
            f"in {row.seconds:,.0f} s"
        ]
        if not has_page:
            notes.append(f"{self.what}: its page could not be written; log.txt has the reason")
        return Done([row], {"precision": environment["precision"]}, notes=notes)


def write_page(
    run: Path, say: Callable[[str], None], examine: Callable[[Path], None] = silent
) -> bool:
    """Write the page of a run, and return whether it could be written.

    The run is complete without its page, so an error of the page, also a bug of ours, does not end
    the comparison. It is logged with its traceback.

    Args:
        run: the folder of the run.
        say: writes a line to the log.
        examine: writes what the page shows of the model. Without it, the page has the rest.
    """
    _succeeds(examine, run, say)
    return _succeeds(lambda run: write_report(read_run(run)), run, say)


def _succeeds(part: Callable[[Path], object], run: Path, say: Callable[[str], None]) -> bool:
    try:
        part(run)
    except Exception:
        say(f"the page of {run} could not be written:\n{traceback.format_exc()}")
        return False
    return True


def _length(
    entry: Entry, config: CompareConfig, data: Path, out: Path, seed: int
) -> dict[str, Any]:
    """Return the length of a run as keys of its configuration."""
    kind = trainable()[entry.system]
    if issubclass(kind, StepRun):
        if config.tokens is None:
            return {"minutes": config.minutes_each}
        run = cast(StepRun, run_of(entry, config, data, out, seed))
        return {"steps": max(1, round(config.tokens / run.batch.tokens))}
    if "minutes" not in values.keys_of(kind):  # it is counted, in one pass
        return {}
    if config.tokens is None:
        return {"epochs": float(entry.passes), "minutes": config.minutes_each}
    passes = config.tokens / open_shards(data, verify=False).num_tokens
    return {"epochs": min(float(entry.passes), passes)}


def numbers_of(learner: Learner) -> int:
    """Return the number of parameters of a model.

    They include saved buffers, such as the vectors of fastText's character n-grams, which have no
    gradient. For an n-gram model, it is the number of its n-grams.
    """
    if isinstance(learner.encoder.config, NgramConfig):
        return learner.encoder.config.vocab_size + sum(learner.encoder.config.ngrams)
    saved = learner.state_dict().keys()
    buffers = [tensor for name, tensor in learner.named_buffers() if name in saved]
    trained = [*learner.parameters(), *filter(torch.is_floating_point, buffers)]
    return sum(tensor.numel() for tensor in trained)
