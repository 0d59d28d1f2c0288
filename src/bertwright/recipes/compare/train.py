"""Pre-train one rung with its budget, which is the same time or number of tokens for every rung.

A system that is trained in passes over the text makes at most `Rung.passes`, because more do not
improve it.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch

from bertwright.checkpoint import checkpoint, find
from bertwright.config import values
from bertwright.config.compare import CompareConfig
from bertwright.config.run import RunConfig, StepRun
from bertwright.data.shards import open_shards
from bertwright.models.catalogue import trainable
from bertwright.models.ngram.config import NgramConfig
from bertwright.nn.objective import Learner
from bertwright.recipes import pretrain as pretraining
from bertwright.recipes.compare.rungs import Rung
from bertwright.recipes.compare.stages import Found
from bertwright.recipes.run_folder import ENVIRONMENT
from bertwright.report.pages import write_report
from bertwright.report.read import METRICS, read_run
from bertwright.train.log import read_records

VALIDATION_TOKENS = 8192
"""The number of tokens of a validation, which only serves the curve of a run, because the held-out
text is measured separately. Validation takes time from training: with 32,768 tokens, it took nearly
half of 90 seconds on a busy computer.
"""


def run_of(
    rung: Rung, config: CompareConfig, data: Path, out: Path, seed: int, **length: Any
) -> RunConfig:
    """Return the configuration of a rung's run; `length` has the keys that set its length."""
    kind = trainable()[rung.system]
    every = max(0.5, config.minutes_each / 4)
    wanted: dict[str, Any] = {
        "data": str(data),
        "out": str(out),
        "model": rung.model,
        "seed": seed,
        "device": config.device,
        "checkpoint": {"keep": 1},
        **length,
    }
    if issubclass(kind, StepRun):
        wanted["checkpoint"]["every_minutes"] = every
        wanted["log"] = {"every_seconds": min(5.0, max(0.5, 2 * config.minutes_each))}
        wanted["validation"] = {"every_minutes": every, "tokens": VALIDATION_TOKENS}
    given = values.merge(rung.settings, wanted)
    if rung.name == "cove":
        given["word_vectors"] = str(out.parents[1] / rung.needs / out.name)
    size = open_shards(data, verify=False).vocab_size
    most = given.get("architecture", {}).get("output_size")
    if most is not None:
        given = values.merge(given, {"architecture": {"output_size": min(most, size)}})
    return values.from_dict(kind, given)


def train(
    rung: Rung,
    config: CompareConfig,
    data: Path,
    out: Path,
    seed: int,
    say: Callable[[str], None],
) -> Found:
    """Pre-train a rung, or continue its run; return its tokens, its time, its size and other facts.

    Raises:
        BertwrightError: as for `pretrain`.
    """
    run = run_of(rung, config, data, out, seed, **_length(rung, config, data, out, seed))
    pretraining.pretrain(run, say, resume=True)
    records = read_records(out / METRICS)
    last = records[-1]
    in_steps = isinstance(run, StepRun)
    tokens, seconds = int(last["tokens"]), float(last["seconds"])
    held_out = [record for record in records if record["split"] == "dev"]
    return {
        "model": rung.model,
        "parameters": numbers_of(checkpoint.load(find.find_checkpoint(out)).learner),
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / max(seconds, 1e-9),
        "passes": None if in_steps else int(last["step"]),
        "steps": int(last["step"]) if in_steps else None,
        "loss": held_out[-1].get("loss") if held_out else None,
        "precision": json.loads((out / ENVIRONMENT).read_text(encoding="utf-8"))["precision"],
        "page": write_page(out, say),
    }


def write_page(run: Path, say: Callable[[str], None]) -> bool:
    """Write the page of a run, and return whether it could be written.

    The run is complete without its page, so an error of the page, also a bug of ours, does not end
    the comparison. It is logged with its traceback.
    """
    try:
        write_report(read_run(run))
    except Exception:
        say(f"the page of {run} could not be written:\n{traceback.format_exc()}")
        return False
    return True


def _length(rung: Rung, config: CompareConfig, data: Path, out: Path, seed: int) -> dict[str, Any]:
    """Return the length of a run as keys of its configuration."""
    kind = trainable()[rung.system]
    if issubclass(kind, StepRun):
        if config.tokens is None:
            return {"minutes": config.minutes_each}
        run = cast(StepRun, run_of(rung, config, data, out, seed))
        return {"steps": max(1, round(config.tokens / run.batch.tokens))}
    if "minutes" not in values.keys_of(kind):  # it is counted, in one pass
        return {}
    if config.tokens is None:
        return {"epochs": float(rung.passes), "minutes": config.minutes_each}
    passes = config.tokens / open_shards(data, verify=False).num_tokens
    return {"epochs": min(float(rung.passes), passes)}


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
