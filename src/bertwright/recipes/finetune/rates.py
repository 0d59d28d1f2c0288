"""Choose a learning rate by trials: each rate trains for a while, and dev selects one.

`auto` tries `RATES` on a slice of the training file, so short that all trials together take a third
of the run's time at most. Several rates that are named (`1e-4,3e-4,1e-3`) train the first seed
whole, as Devlin et al. 2019, appendix A.3, chose theirs.

Every trial that ends is written to `learning-rates.json` in the run's folder, and its log is beside
it (`learning-rates/RATE/metrics.jsonl`). The same command takes trials that are there from the
file, if model, data and settings are the same.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertwright.atomic import atomic_file
from bertwright.config import values
from bertwright.config.finetune import FinetuneConfig, rates_of
from bertwright.data.randomness import make_key, permutation
from bertwright.nn.objective import Learner
from bertwright.progress import silent
from bertwright.recipes.finetune.setup import TaskSetup
from bertwright.recipes.finetune.training import (
    EVALUATED,
    Diverged,
    Hardware,
    SeedRun,
    train_seed,
)
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.task_data import TaskData
from bertwright.train.log import Log

RATES = (1e-4, 3e-4, 1e-3, 3e-3)
"""The rates that `auto` tries."""
SMALL = 30_000_000
"""Parameters of an encoder below which `auto` tries rates."""
SHARE = 0.45
"""Of the run, without trials, that they may cost: with them it is less than a third."""
FOR_DEV = 0.25
"""Of a trial, the part that its evaluation may cost."""
FEWEST_STEPS = 8
"""Of a trial; shorter ones say nothing."""
FILE, FOLDER = "learning-rates.json", "learning-rates"


@dataclass(frozen=True)
class Plan:
    """Which rates are tried, on what, and what that costs."""

    rates: tuple[float, ...]
    setups: Sequence[TaskSetup]
    """The data of a trial."""
    config: FinetuneConfig
    """The keys of a trial, but for its rate."""
    whole: bool
    """Whether a trial is the first seed itself."""
    tokens: float
    """Of all trials that come on top of the run, in tokens that a step trains on."""
    sentence: str
    """What is tried and what it costs, for the user."""


@dataclass
class Chosen:
    """What the trials came to."""

    rate: float
    trials: list[dict[str, Any]]
    """Of each: `learning_rate`, the `score` on its dev examples (None: diverged), `seconds`."""
    first: SeedRun | None = None
    """The first seed, trained at the chosen rate."""


def plan_trials(
    config: FinetuneConfig, setups: Sequence[TaskSetup], parameters: int, cost: float
) -> Plan | None:
    """Return the trials of a run, or None where its rate is not chosen by trials.

    Args:
        config: the keys, with epochs and seeds as they will be.
        setups: the tasks.
        parameters: of the encoder.
        cost: of all seeds, in tokens that a step trains on.
    """
    rates = rates_of(config.learning_rate)
    if len(rates) > 1:
        more = (len(rates) - 1) / config.seeds * cost
        return Plan(
            rates,
            setups,
            replace(config, learning_rate=None, seeds=1),
            True,
            more,
            f"learning rate: {_listed(rates)} train seed {config.seed} whole, and dev selects one: "
            f"{len(rates) + config.seeds - 1} trainings in place of {config.seeds}",
        )
    has_dev = all(setup.files.dev is not None for setup in setups)
    if config.learning_rate != "auto" or config.transfer == "features" or not has_dev:
        return None
    if parameters >= SMALL or config.keep == "last":  # then dev selects nothing
        return None
    return _plan_slice(config, setups, cost)


def _plan_slice(config: FinetuneConfig, setups: Sequence[TaskSetup], cost: float) -> Plan | None:
    """Return trials on a slice of the data; None where it would be too short."""
    budget = SHARE * cost / len(RATES)  # tokens of a trial
    dev_tokens = sum(setup.dev.num_tokens for setup in setups) / EVALUATED
    of_dev = min(1.0, FOR_DEV * budget / max(1.0, dev_tokens))
    dev = [_part(setup.dev, of_dev, config.seed, "rates of dev") for setup in setups]
    budget -= sum(data.num_tokens for data in dev) / EVALUATED
    tokens = sum(setup.train.num_tokens * setup.files.weight for setup in setups)
    passes = budget / tokens
    of_train = min(1.0, passes)
    train = [_part(setup.train, of_train, config.seed, "rates of train") for setup in setups]
    sliced = [
        replace(setup, train=some, dev=held)
        for setup, some, held in zip(setups, train, dev, strict=True)
    ]
    seen = sum(len(data.examples) * s.files.weight for s, data in zip(setups, train, strict=True))
    epochs = passes / of_train
    if epochs * seen / config.batch_size < FEWEST_STEPS:
        return None
    taken, total = (
        sum(len(data.examples) for data in side)
        for side in (train, [setup.train for setup in setups])
    )
    compared = sum(len(data.examples) for data in dev)
    trial = replace(
        config,
        learning_rate=None,
        seeds=1,
        epochs=epochs,
        keep="last",
        patience=None,
        evaluations_per_epoch=1e-9,  # at the end alone
    )
    share = SHARE / (1 + SHARE)
    return Plan(
        RATES,
        sliced,
        trial,
        False,
        SHARE * cost,
        f"learning rate: {_listed(RATES)} are tried on {taken:,} of {total:,} training examples "
        f"({epochs:.2g} epochs each) and compared on {compared:,} of dev, before the run itself: "
        f"about {share:.0%} of all its time; --learning-rate NUMBER leaves this out",
    )


def _listed(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in rates[:-1]) + f" and {rates[-1]:g}"


def _part(data: TaskData, fraction: float, seed: int, what: str) -> TaskData:
    """Return a random part of the examples; those of one source stay together."""
    if fraction >= 1:
        return data
    source = kind_of(data.task.kind).source
    numbers: dict[Hashable, int] = {}
    names = [n if source is None else source(e) for n, e in enumerate(data.examples)]
    if len(set(names)) < 20:  # of few documents a part of each
        names = list(range(len(data.examples)))
    groups = np.array([numbers.setdefault(name, len(numbers)) for name in names])
    order = permutation(make_key(what, seed), len(numbers))
    sizes = np.bincount(groups)[order]
    taken = np.isin(groups, order[np.cumsum(sizes) - sizes < fraction * len(groups)])
    examples = [example for example, is_taken in zip(data.examples, taken, strict=True) if is_taken]
    return TaskData(data.name, data.task, data.tokenizer, examples)


def choose_rate(
    plan: Plan,
    new_learner: Callable[[], Learner],
    hardware: Hardware,
    run: Path,
    tried: Mapping[float, dict[str, Any]],
    key: str,
    say: Callable[[str], None],
    on_tokens: Callable[[float], None],
) -> Chosen:
    """Run the trials, and choose: the best on dev; of those that fewer than one standard error of
    the slice of dev separates from it, the lowest, as a short training prefers high rates.

    Raises:
        Diverged: all rates.
        Interrupted: a signal came; trials that had ended are kept.
    """
    trials: list[dict[str, Any]] = []
    runs: dict[float, SeedRun] = {}
    for rate in plan.rates:
        if rate in tried:
            trials.append(tried[rate])
            say(f"learning rate {rate:g}: {_outcome(tried[rate])}, tried before")
            on_tokens(plan.tokens / len(plan.rates))
            continue
        began, log = time.monotonic(), None
        folder = run / FOLDER / f"{rate:g}"
        if hardware.ranks.is_first:
            folder.mkdir(parents=True, exist_ok=True)
            shown = say if plan.whole else silent
            log = Log(folder, shown, labels={"seed": plan.config.seed})
        config = replace(plan.config, learning_rate=rate)
        try:
            found = train_seed(
                config, plan.setups, new_learner(), config.seed, hardware, log, on_tokens
            )
        except Diverged:
            found = None
        finally:
            if log is not None:
                log.close()
        score = None if found is None or not math.isfinite(found.score) else found.score
        trial = {
            "learning_rate": rate,
            "score": score,
            "seconds": round(time.monotonic() - began, 1),
        }
        trials.append(trial)
        if found is not None and plan.whole:
            runs[rate] = found
            best = max(runs.values(), key=lambda each: each.score)
            for each in runs.values():
                each.state = each.state if each is best else {}
        if hardware.ranks.is_first:
            with atomic_file(run / FILE, overwrite=True) as file:
                file.write(json.dumps({"key": key, "trials": trials}, indent=1) + "\n")
        say(f"learning rate {rate:g}: {_outcome(trial)}")
    scores = {t["learning_rate"]: t["score"] for t in trials if t["score"] is not None}
    if not scores:
        raise Diverged(f"diverged: every learning rate ({_listed(plan.rates)}); name lower ones")
    chosen = max(scores, key=lambda rate: scores[rate])
    if not plan.whole:
        best = scores[chosen]
        count = sum(len(setup.dev.examples) for setup in plan.setups)
        margin = math.sqrt(max(0.0, best * (1 - best)) / count)
        chosen = min(rate for rate, score in scores.items() if score >= best - margin)
    say(f"learning rate {chosen:g} is chosen")
    first = runs.get(chosen)
    if first is not None and hardware.ranks.is_first:
        shutil.copyfile(run / FOLDER / f"{chosen:g}" / "metrics.jsonl", run / "metrics.jsonl")
    return Chosen(chosen, trials, first if first is not None and first.state else None)


def _outcome(trial: Mapping[str, Any]) -> str:
    score = trial["score"]
    return "diverged" if score is None else f"{score:.4f} on dev"


def key_of(folder: Path, config: FinetuneConfig, setups: Sequence[TaskSetup]) -> str:
    """Return a hash of all that decides what a trial comes to: the files of the model, the keys of
    the run, and the tasks with their data."""
    settings: list[Any] = [values.plain(values.to_dict(config) | {"out": None})]
    for file in sorted(folder.glob("*.safetensors")):
        settings.append([file.name, file.stat().st_size, file.stat().st_mtime_ns])
    found = hashlib.sha256()
    for setup in setups:
        settings.append(values.plain(values.to_dict(setup.task) | values.to_dict(setup.files)))
        for data in (setup.train, setup.dev):
            for instance in data.instances:
                found.update(repr(instance.label).encode())
                for ids in instance.ids:
                    found.update(np.asarray(ids).tobytes())
    found.update(json.dumps(settings).encode())
    return found.hexdigest()


def read_tried(run: Path, key: str) -> dict[float, dict[str, Any]]:
    """Return the trials that an earlier command with the same key left in a run's folder, by their
    rates; none where there is no such file, or a damaged one."""
    try:
        content = json.loads((run / FILE).read_text(encoding="utf-8"))
        if content["key"] != key:
            return {}
        return {float(trial["learning_rate"]): trial for trial in content["trials"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
