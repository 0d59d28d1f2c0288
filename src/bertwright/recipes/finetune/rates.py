"""Choose a learning rate by trials.

If several rates are given (`1e-4,3e-4,1e-3`), the whole first seed is trained with each of them, as
in Devlin et al. 2019, appendix A.3, and the best on dev is chosen.

Every completed trial is written to `learning-rates.json` in the run's folder, and its log to
`learning-rates/RATE/metrics.jsonl`. If the same command is run again with the same model, data and
settings, it reuses the completed trials.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertwright.atomic import atomic_file
from bertwright.config import values
from bertwright.config.finetune import FinetuneConfig
from bertwright.recipes.finetune.setup import TaskSetup
from bertwright.recipes.finetune.training import Diverged, SeedRun
from bertwright.train.log import METRICS, Log
from bertwright.train.signals import SeveralRuns

FORMAT = 3
"""The version of the format of `learning-rates.json`."""
FILE, FOLDER = "learning-rates.json", "learning-rates"

Train = Callable[[float, Log | None], SeedRun]
"""Trains the first seed with a learning rate and a log."""


@dataclass
class Chosen:
    """The result of the trials."""

    rate: float
    trials: list[dict[str, Any]]
    """For each trial: `learning_rate`, `score` on dev (None if it diverged), `seconds`."""
    first: SeedRun | None = None
    """The first seed with the chosen rate, if a trial trained it."""


@dataclass(frozen=True)
class Trials:
    """The learning rates to try, and the file of the completed trials."""

    rates: tuple[float, ...]
    run: Path
    """The folder of the run."""
    key: str
    """What determines the results of the trials (`key_of`)."""
    tried: Mapping[float, dict[str, Any]]
    """The trials that an earlier command completed, by their rates."""
    seed: int
    is_first: bool
    """Whether this is the process that writes files."""

    def choose(
        self,
        train: Train,
        say: Callable[[str], None],
        on_skipped: Callable[[], None],
    ) -> Chosen:
        """Run the trials and choose the rate with the best score on dev.

        Args:
            train: trains the first seed.
            on_skipped: called for each trial that was completed before.

        Raises:
            Diverged: all rates diverged.
            Interrupted: a signal arrived; completed trials are kept.
        """
        trials: list[dict[str, Any]] = []
        runs: dict[float, SeedRun] = {}
        with SeveralRuns() as signals:
            for rate in self.rates:
                if rate in self.tried:
                    trials.append(self.tried[rate])
                    say(f"learning rate {rate:g}: {_outcome(trials[-1])}, tried before")
                    on_skipped()
                    continue
                signals.heed()
                trial, seed_run = self._try(rate, train, say)
                trials.append(trial)
                if seed_run is not None:
                    runs[rate] = seed_run
                    best = max(runs.values(), key=lambda each: each.score)
                    for each in runs.values():
                        each.state = each.state if each is best else {}
                if self.is_first:
                    with atomic_file(self.run / FILE, overwrite=True) as file:
                        file.write(json.dumps({"key": self.key, "trials": trials}, indent=1) + "\n")
                say(f"learning rate {rate:g}: {_outcome(trial)}")
        scores = {each["learning_rate"]: each["score"] for each in trials}
        scores = {rate: score for rate, score in scores.items() if score is not None}
        if not scores:
            listed = ", ".join(f"{rate:g}" for rate in self.rates)
            raise Diverged(f"diverged: every learning rate ({listed}); name lower ones")
        chosen = max(scores, key=lambda rate: scores[rate])
        say(f"learning rate {chosen:g} is chosen")
        first = runs.get(chosen)
        if first is not None and self.is_first:
            shutil.copyfile(self.run / FOLDER / f"{chosen:g}" / METRICS, self.run / METRICS)
        return Chosen(chosen, trials, first if first is not None and first.state else None)

    def _try(
        self, rate: float, train: Train, say: Callable[[str], None]
    ) -> tuple[dict[str, Any], SeedRun | None]:
        """Train with a rate and return the trial as it is written, and its seed; None: it
        diverged.
        """
        began, log = time.monotonic(), None
        folder = self.run / FOLDER / f"{rate:g}"
        if self.is_first:
            folder.mkdir(parents=True, exist_ok=True)
            log = Log(folder, say, labels={"seed": self.seed})
        seed_run: SeedRun | None
        try:
            seed_run = train(rate, log)
        except Diverged:
            seed_run = None
        finally:
            if log is not None:
                log.close()
        score = None if seed_run is None or not math.isfinite(seed_run.score) else seed_run.score
        return {
            "learning_rate": rate,
            "score": score,
            "seconds": round(time.monotonic() - began, 1),
        }, seed_run


def _outcome(trial: Mapping[str, Any]) -> str:
    return "diverged" if trial["score"] is None else f"{trial['score']:.4f} on dev"


def key_of(folder: Path, config: FinetuneConfig, setups: Sequence[TaskSetup]) -> str:
    """Return a hash of everything that determines the result of a trial.

    This includes the files of the model, the keys of the run, and the tasks with their data.
    """
    settings: list[Any] = [FORMAT, values.plain(values.to_dict(config) | {"out": None})]
    for file in sorted(folder.glob("*.safetensors")):
        settings.append([file.name, file.stat().st_size, file.stat().st_mtime_ns])
    digest = hashlib.sha256()
    for setup in setups:
        settings.append(values.plain(values.to_dict(setup.task) | values.to_dict(setup.files)))
        for data in (setup.train, setup.dev):
            for instance in data.instances:
                digest.update(repr(instance.label).encode())
                for ids in instance.ids:
                    digest.update(np.asarray(ids).tobytes())
    digest.update(json.dumps(settings).encode())
    return digest.hexdigest()


def read_tried(run: Path, key: str) -> dict[float, dict[str, Any]]:
    """Return the trials that an earlier command with the same key completed, by their rates.

    The result is empty if there is no file of trials, or if it is damaged or has another key.
    """
    try:
        content = json.loads((run / FILE).read_text(encoding="utf-8"))
        if content["key"] != key:
            return {}
        return {float(trial["learning_rate"]): trial for trial in content["trials"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
