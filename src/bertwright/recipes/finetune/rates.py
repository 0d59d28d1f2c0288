"""Choose a learning rate by trials: a short training with each rate, compared on the dev set.

`auto` tries three rates on a part of the training file: the rate that suits the encoder, a third of
it and three times it. The part is so small that all trials together take at most a third of the
run's time. The rate with the lowest loss on dev is chosen, because after so few steps the metrics
of all rates may still be those of a constant prediction. A rate other than the one that suits the
encoder is chosen only if its loss is clearly lower: in a short trial all losses may be those of a
constant prediction too, and a low rate, which changes the encoder little, looks better than it is
in a whole run. If several rates are given (`1e-4,3e-4,1e-3`), the whole first seed is trained with
each of them, as in Devlin et al. 2019, appendix A.3.

Every completed trial is written to `learning-rates.json` in the run's folder, and its log to
`learning-rates/RATE/metrics.jsonl`. If the same command is run again with the same model, data and
settings, it reuses the completed trials.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.atomic import atomic_file
from bertwright.config import values
from bertwright.config.finetune import FinetuneConfig, rates_of
from bertwright.data.randomness import make_key, permutation
from bertwright.nn.objective import Learner
from bertwright.progress import silent
from bertwright.recipes.finetune import defaults
from bertwright.recipes.finetune.setup import TaskSetup
from bertwright.recipes.finetune.training import (
    EVALUATED,
    Diverged,
    SeedRun,
    TaskHardware,
    train_seed,
)
from bertwright.tasks.batch import instance_batches
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.task_data import TaskData, make_batch
from bertwright.train.log import METRICS, Log
from bertwright.train.signals import SeveralRuns

FACTORS = (1 / 3, 1.0, 3.0)
"""The rates that `auto` tries, as multiples of the one that suits the encoder."""
SHARE = 0.45
"""The cost of the trials, as a fraction of the run without them. It is less than a third of the
total cost.
"""
FOR_DEV = 0.25
"""The maximum fraction of a trial's cost that its evaluation may take."""
FEWEST_STEPS = 8
"""The minimum number of steps of a trial; shorter trials are not informative."""
CLEARLY = 0.95
"""In trials on a part of the data, a rate is chosen in place of the one that suits the encoder only
if its loss is at most this fraction of that rate's loss."""
FORMAT = 2
"""The version of the format of `learning-rates.json`."""
FILE, FOLDER = "learning-rates.json", "learning-rates"


@dataclass(frozen=True)
class Plan:
    """The rates to try, the data of the trials, and their cost."""

    rates: tuple[float, ...]
    setups: Sequence[TaskSetup]
    """The tasks with the data of a trial."""
    config: FinetuneConfig
    """The configuration of a trial, without its rate."""
    whole: bool
    """Whether a trial trains the whole first seed."""
    usual: float | None
    """The rate that suits the encoder, if the trials use a part of the data; else None."""
    tokens: float
    """The additional cost of all trials, in trained tokens."""
    sentence: str
    """A description of the trials and their cost, for the user."""

    @property
    def by_score(self) -> bool:
        """Whether the rates are compared by their scores on dev, not by the loss.

        Vectors are useful before any training, so their scores distinguish the rates. Their loss on
        a part of dev is not comparable with that of training, because a step has other negatives.
        """
        return self.whole or any(kind_of(setup.task.kind).vectors for setup in self.setups)


@dataclass
class Chosen:
    """The result of the trials."""

    rate: float
    trials: list[dict[str, Any]]
    """For each trial: `learning_rate`, `score` on its dev examples (None if it diverged),
    `seconds`, and for trials on a part of the data `loss` on these dev examples.
    """
    first: SeedRun | None = None
    """The first seed, if a trial trained it with the chosen rate."""


def plan_trials(
    config: FinetuneConfig,
    setups: Sequence[TaskSetup],
    parameters: int,
    cost: float,
    usual: float,
) -> Plan | None:
    """Return the plan of a run's trials, or None if its rate is not chosen by trials.

    Args:
        config: the configuration, with the final numbers of epochs and seeds.
        cost: the cost of all seeds, in trained tokens.
        usual: the rate that suits the encoder.
    """
    rates = rates_of(config.learning_rate)
    if len(rates) > 1:
        more = (len(rates) - 1) / config.seeds * cost
        return Plan(
            rates,
            setups,
            replace(config, learning_rate=None, seeds=1),
            True,
            None,
            more,
            f"learning rate: {_listed(rates)} each train seed {config.seed}, and dev selects one: "
            f"{len(rates) + config.seeds - 1} trainings in place of {config.seeds}",
        )
    has_dev = all(setup.files.dev is not None for setup in setups)
    if config.learning_rate != "auto" or config.transfer == "features" or not has_dev:
        return None
    if parameters >= defaults.SMALL or config.keep == "last":  # then dev selects nothing
        return None
    return _plan_slice(config, setups, cost, usual)


def _plan_slice(
    config: FinetuneConfig, setups: Sequence[TaskSetup], cost: float, usual: float
) -> Plan | None:
    """Return the plan of trials on a part of the data; None if the part would be too small."""
    rates = tuple(float(f"{factor * usual:.1g}") for factor in FACTORS)
    budget = SHARE * cost / len(rates)  # of each trial, in trained tokens
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
        evaluations_per_epoch=1e-9,  # only at the end
    )
    share = SHARE / (1 + SHARE)
    return Plan(
        rates,
        sliced,
        trial,
        False,
        rates[FACTORS.index(1.0)],
        SHARE * cost,
        f"learning rate: {_listed(rates)} are tried on {taken:,} of {total:,} training examples "
        f"({epochs:.2g} epochs each) and compared on {compared:,} of dev, before the run itself: "
        f"about {share:.0%} of all its time; --learning-rate NUMBER leaves this out",
    )


def _listed(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in rates[:-1]) + f" and {rates[-1]:g}"


def _part(data: TaskData, fraction: float, seed: int, what: str) -> TaskData:
    """Return a random part of the examples. Examples of the same source stay together."""
    if fraction >= 1:
        return data
    kind = kind_of(data.task.kind)
    numbers: dict[Hashable, int] = {}
    names = [kind.source(example) for example in data.examples]
    if None in names or len(set(names)) < 20:  # with few sources, take a part of each
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
    hardware: TaskHardware,
    run: Path,
    tried: Mapping[float, dict[str, Any]],
    key: str,
    say: Callable[[str], None],
    on_tokens: Callable[[float], None],
    seconds: float | None = None,
) -> Chosen:
    """Run the trials and choose a rate.

    If the time is limited, the first rate may take all of it, and each further one is tried if as
    much time is left as the longest trial took.

    If a trial trains a whole seed, or a task is one of vectors, the rate with the best score on dev
    is chosen. Otherwise the rate with the lowest loss on dev is chosen, if its loss is clearly
    below that of the usual rate, or else the usual rate.

    Args:
        new_learner: returns the learner that a trial starts from.
        tried: the trials that an earlier command completed, by their rates.
        key: the key with which the trials are written; see `key_of`.
        on_tokens: called with the number of trained tokens.
        seconds: the time for all trials, if they train the whole first seed; None: no limit.

    Raises:
        Diverged: all rates diverged.
        Interrupted: a signal arrived; completed trials are kept.
    """
    trials: list[dict[str, Any]] = []
    runs: dict[float, SeedRun] = {}
    began = time.monotonic()
    with SeveralRuns() as signals:
        for rate in plan.rates:
            left = None if seconds is None else seconds - (time.monotonic() - began)
            if left is not None and trials and left < max(each["seconds"] for each in trials):
                say(f"learning rate {rate:g}: not tried, because {left:.0f} s are left")
                continue
            if rate in tried:
                trials.append(tried[rate])
                say(f"learning rate {rate:g}: {_outcome(tried[rate])}, tried before")
                on_tokens(plan.tokens / len(plan.rates))
                continue
            signals.heed()
            trial, seed_run = _try(plan, rate, new_learner, hardware, run, say, on_tokens, left)
            trials.append(trial)
            if seed_run is not None and plan.whole:
                runs[rate] = seed_run
                best = max(runs.values(), key=lambda each: each.score)
                for each in runs.values():
                    each.state = each.state if each is best else {}
            if hardware.ranks.is_first:
                with atomic_file(run / FILE, overwrite=True) as file:
                    file.write(json.dumps({"key": key, "trials": trials}, indent=1) + "\n")
            say(f"learning rate {rate:g}: {_outcome(trial)}")
    measured = "score" if plan.by_score else "loss"
    chosen = select_rate(trials, measured, plan.usual)
    if chosen is None:
        raise Diverged(f"diverged: every learning rate ({_listed(plan.rates)}); name lower ones")
    say(f"learning rate {chosen:g} is chosen")
    first = runs.get(chosen)
    if first is not None and hardware.ranks.is_first:
        shutil.copyfile(run / FOLDER / f"{chosen:g}" / METRICS, run / METRICS)
    return Chosen(chosen, trials, first if first is not None and first.state else None)


def _try(
    plan: Plan,
    rate: float,
    new_learner: Callable[[], Learner],
    hardware: TaskHardware,
    run: Path,
    say: Callable[[str], None],
    on_tokens: Callable[[float], None],
    seconds: float | None,
) -> tuple[dict[str, Any], SeedRun | None]:
    """Train with a rate and return the trial as it is written, and its seed; None: it diverged."""
    began, log = time.monotonic(), None
    folder = run / FOLDER / f"{rate:g}"
    if hardware.ranks.is_first:
        folder.mkdir(parents=True, exist_ok=True)
        shown = say if plan.whole else silent
        log = Log(folder, shown, labels={"seed": plan.config.seed})
    config = replace(plan.config, learning_rate=rate)
    seed_run, loss = None, math.nan
    try:
        learner, seed = new_learner(), config.seed
        seed_run = train_seed(config, plan.setups, learner, seed, hardware, log, on_tokens, seconds)
        if not plan.by_score:
            loss = dev_loss(learner, plan.setups, hardware)
    except Diverged:
        seed_run = None
    finally:
        if log is not None:
            log.close()
    score = None if seed_run is None or not math.isfinite(seed_run.score) else seed_run.score
    trial = {"learning_rate": rate, "score": score}
    if not plan.by_score:
        trial["loss"] = loss if math.isfinite(loss) else None
    trial["seconds"] = round(time.monotonic() - began, 1)
    return trial, seed_run


def select_rate(
    trials: Sequence[Mapping[str, Any]], measured: str, usual: float | None
) -> float | None:
    """Return the best rate of completed trials; None if all diverged.

    Args:
        trials: the trials as in `learning-rates.json`.
        measured: `score`, of which the highest is the best, or `loss`, of which the lowest is the
            best. With `loss`, another rate than `usual` is chosen only if its loss is clearly
            lower.
        usual: the rate that suits the encoder; None: no rate is preferred.
    """
    found: dict[float, float] = {
        trial["learning_rate"]: trial[measured]
        for trial in trials
        if trial.get(measured) is not None
    }
    if not found:
        return None
    if measured == "score":
        return max(found, key=lambda rate: found[rate])
    best = min(found, key=lambda rate: found[rate])
    if usual in found and found[best] > CLEARLY * found[usual]:
        return usual
    return best


def _outcome(trial: Mapping[str, Any]) -> str:
    score, loss = trial["score"], trial.get("loss")
    if score is None:
        return "diverged"
    return f"{score:.4f} on dev" + ("" if loss is None else f", loss {loss:.4f}")


def dev_loss(learner: Learner, setups: Sequence[TaskSetup], hardware: TaskHardware) -> float:
    """Return the mean loss of a learner on the dev examples. For several tasks, it is the mean of
    their mean losses.
    """
    means = []
    learner.eval()
    device = hardware.device
    for setup in setups:
        total, count = 0.0, 0
        instances = setup.dev.instances
        for rows in instance_batches(instances, hardware.predicted_tokens):
            batch = make_batch(setup.task_name, setup.task, instances, rows, device)
            with torch.inference_mode(), hardware.autocast():
                loss = learner(batch)[setup.task_name]
            total, count = total + float(loss.total), count + loss.count
        means.append(total / max(1, count))
    return statistics.fmean(means)


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
