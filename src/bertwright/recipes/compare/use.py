"""Fit the task of a comparison in several ways, and compute the baselines of the kind of task.

The ways are a linear layer on a rung's frozen features, fine-tuning the whole rung, and fine-tuning
the same network from random weights.

Linear heads on frozen features are fitted without steps (`recipes/finetune/fitted.py`). For trained
models, dev selects the learning rate and the epoch, and the test file is read once, by the selected
model. A fit takes `task_minutes` at most: a short trial measures its speed, and the numbers of
epochs, examples and dev examples are reduced accordingly. If there is time for whole fits with
every learning rate, dev selects among them. Otherwise rates are tried on a slice of the data
(`recipes/finetune/rates.py`), in a third of the time.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from bertwright.atomic import sha256_file
from bertwright.config import values
from bertwright.config.compare import CompareConfig
from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig, label_map
from bertwright.config.task import TaskConfig, TaskOptions
from bertwright.errors import BertwrightError, ConfigError
from bertwright.inference.files.pairs import predict_pairs
from bertwright.inference.files.predictions import evaluate_file
from bertwright.inference.model import Model, load
from bertwright.labelled.columns import make_columns
from bertwright.labelled.examples import Example
from bertwright.progress import silent
from bertwright.recipes.compare.rungs import Rung
from bertwright.recipes.compare.stages import Found
from bertwright.recipes.compare.train import write_page
from bertwright.recipes.finetune.defaults import epochs_of
from bertwright.recipes.finetune.rates import SHARE
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import (
    Split,
    TaskSpec,
    draw,
    read_labelled,
    read_split,
)
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.evaluate import check_main, evaluate, metrics_of
from bertwright.tasks.predict import predict
from bertwright.tasks.similarity.options import SimilarityTask
from bertwright.tasks.task_data import TaskData
from bertwright.train.hardware import choose_precision

Way = Literal["frozen", "tuned", "random"]
WAYS: dict[Way, str] = {
    "frozen": "frozen features",
    "tuned": "fine-tuned",
    "random": "random weights, fine-tuned",
}
"""The ways to use a rung, with their names for users."""
TRIAL_EXAMPLES, TRIAL_DEV = 96, 32
"""The numbers of training and dev examples of the trial that measures the speed of fits."""
FORWARD = 3.0
"""The number of examples that are predicted in the time of training on one."""
LEAST_STEPS = 50
"""If a fit has time for fewer steps, fewer learning rates are tried, because after very few steps a
model gives the same prediction for all examples.
"""
EVALUATIONS = 6
"""The maximum number of evaluations of a fit on dev. They may take a tenth of its time."""


@dataclass(frozen=True)
class Task:
    """A labelled task."""

    kind: str
    files: TaskFilesConfig
    options: TaskOptions
    test: str | None = None
    """The labelled file that is evaluated once, at the end."""


@dataclass(frozen=True)
class Labelled:
    """The examples of a task, read before anything is trained."""

    task: Task
    split: Split
    """The training and dev examples, which are the same for all seeds, fits and baselines."""
    test: list[Example] | None
    config: TaskConfig
    """The task as its model would store it, with the keys that metrics need."""
    metric: str
    """The metric that is compared."""
    key: Any
    """Everything that results depend on: the settings, and the hashes of the files."""

    @property
    def train(self) -> list[Example]:
        """The training examples."""
        return self.split.train

    @property
    def dev(self) -> list[Example]:
        """The dev examples."""
        return self.split.dev

    @property
    def evaluated(self) -> list[Example]:
        """The examples that results are computed on: test, or dev if there is no test file."""
        return self.dev if self.test is None else self.test

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways to use a rung for this kind of task."""
        if kind_of(self.task.kind).generates:
            return ("tuned", "random")
        return ("frozen", "tuned", "random")

    def count(self, fraction: float) -> int:
        """Return the number of training examples of a fraction."""
        return max(1, round(fraction * len(self.train)))


def read_task(task: Task, config: CompareConfig, say: Callable[[str], None]) -> Labelled:
    """Read the files of a task.

    Raises:
        DataError: a file cannot be read, or has only one label or too few examples.
        ConfigError: there is no training file, the task does not have the metric, or test and dev
            have no metric in common.
    """
    kind, files, options = kind_of(task.kind), task.files, task.options
    if not files.train:
        raise ConfigError("the task of a comparison needs --train, a labelled file")
    kind.check_packages(options)
    split = read_split(kind, files, options, config.seed, say)
    read, labels = split.read, split.labels
    test = None
    if task.test is not None:
        as_train = replace(files, dev_text=None, dev_text2=None, dev_label=None)
        test_read = read_labelled(task.test, kind, as_train, options, say, read, labels)
        test = test_read.of_part("test", "dev")
    made: TaskConfig = kind.make_task(options, read, split.train, labels=labels)
    made = kind.evaluated(made, split.dev)
    names = metrics_of(made)
    if test is not None and metrics_of(kind.evaluated(made, test)) != names:
        raise ConfigError(
            f"{task.test} has other labels than the dev examples, so that they have no metric in "
            f"common: {', '.join(names)} of dev"
        )
    if files.metric is not None:
        check_main(names, files.metric)
    paths = {"train": files.train, "dev": files.dev, "test": task.test}
    contents = {
        name: sha256_file(Path(path)) if Path(path).is_file() else path
        for name, path in paths.items()
        if path is not None
    }
    settings = {k: v for k, v in values.to_dict(files).items() if k not in paths}
    settings |= values.to_dict(options)
    return Labelled(
        task=task,
        split=split,
        test=test,
        config=made,
        metric=files.metric or names[0],
        key={"kind": task.kind, "files": contents, "settings": settings},
    )


def baselines(labelled: Labelled, fraction: float, seed: int) -> Found:
    """Return the results of the baselines of the kind of task, by their names."""
    kind = kind_of(labelled.task.kind)
    if not kind.has_baselines:
        return {}
    train = draw(labelled.train, labelled.count(fraction), seed)
    found = {}
    predicted = kind.baselines(labelled.config, train, labelled.evaluated, seed, False)
    for name, predictions in predicted.items():
        evaluation = evaluate(
            labelled.config, labelled.evaluated, predictions, main=labelled.metric, worst=0
        )
        low, high = evaluation.intervals.get(labelled.metric, (None, None))
        found[name] = {"value": evaluation.score, "low": low, "high": high}
    return found


@dataclass(frozen=True)
class Fits:
    """Fits the task with one rung and one seed."""

    rung: Rung
    run: Path
    """The folder of the rung's pre-training run."""
    labelled: Labelled
    config: CompareConfig
    seed: int
    precision: Literal["auto", "bf16", "fp32"]
    folder: Path
    """The folder that the fits are written to."""
    say: Callable[[str], None]

    def speed(self) -> Found:
        """Measure the number of examples per second of training, with a short fit."""
        out = self.folder / ".trial"
        way: Way = "tuned" if self.rung.tuned else "frozen"
        settings = replace(self._settings(way, out), epochs=1.0, learning_rate=self.rung.rates[0])
        began = time.monotonic()
        try:
            results = self._fit(self._spec(TRIAL_EXAMPLES, TRIAL_DEV), settings)
        finally:
            shutil.rmtree(out, ignore_errors=True)
        rate = trained = results["seeds"][0]["examples_per_second"]
        if not self.rung.tuned:  # the encoder runs once, and takes most of the time
            rate = (TRIAL_EXAMPLES + TRIAL_DEV) / (time.monotonic() - began) / FORWARD
        return {
            "examples_per_second": max(rate, 1e-3),
            "network_examples_per_second": max(trained, 1e-3),
        }

    def fit(self, way: Way, fraction: float, speed: Found, like: Found | None = None) -> Found:
        """Fit the task in one way, evaluate the model that dev selected, and return the results.

        Args:
            way: the way to use the rung.
            fraction: the fraction of the training examples to use.
            speed: the result of `speed`.
            like: the result of the first seed, whose learning rate and epochs this fit repeats;
                None: the epochs are planned, and several rates are tried.

        Raises:
            Diverged: training diverged with every rate.
            BertwrightError: as for `finetune`.
        """
        if way == "frozen" and kind_of(self.labelled.task.kind).vectors:
            return self._as_it_is()
        out = self.folder / f"{way}-{fraction:g}"
        settings = self._settings(way, out)
        seconds, examples = 60 * self.config.minutes_of_fit, self.labelled.count(fraction)
        dev = len(self.labelled.dev)
        per_second = speed["examples_per_second"]
        if way == "frozen" and self.rung.network == "linear":
            plan = plan_frozen(examples, dev, seconds, per_second)
        elif way == "frozen":
            epochs = epochs_of(settings, examples)
            # a comparison that an earlier version began has one speed
            of_network = float(speed.get("network_examples_per_second") or per_second)
            plan = plan_network(examples, dev, epochs, seconds, per_second, of_network)
            settings = replace(settings, epochs=plan.epochs, evaluations_per_epoch=plan.every)
        else:
            plan = plan_fit(
                examples,
                dev,
                epochs_of(settings, examples),
                seconds,
                per_second,
                rates=len(self.rung.rates),
                has_dev=self.labelled.task.files.dev is not None,
            )
            first, *more = self.rung.rates[: plan.rates]
            rates = ",".join(f"{each:g}" for each in (first, *more)) if more else first
            rate = "auto" if plan.on_a_slice else rates
            settings = replace(
                settings,
                epochs=plan.epochs if like is None else like["epochs"],
                evaluations_per_epoch=plan.every,
                learning_rate=rate if like is None else like["rate"],
            )
        began = time.monotonic()
        found = self._fit(self._spec(plan.examples, plan.dev), settings)
        training = time.monotonic() - began
        began = time.monotonic()
        figures = self._evaluate(out, found)
        return {
            **figures,
            "dev": found["summary"][self.labelled.metric]["mean"],
            "rate": found["settings"]["learning_rate"],
            "rates": found.get("learning_rates", []),
            "epochs": found["seeds"][0]["epochs"],
            "examples": plan.examples,
            "of_examples": examples,
            "degenerate": bool(found["degenerate"]),
            "seconds": training,
            "seconds_of_evaluation": time.monotonic() - began,
            "page": write_page(out, self.say),
        }

    def _as_it_is(self) -> Found:
        """Return the results of the vectors of the pre-training run, without training."""
        began = time.monotonic()
        model = load(self.run, None if self.config.device == "auto" else self.config.device)
        labelled, metric = self.labelled, self.labelled.metric
        dev, evaluation = (
            evaluate(
                labelled.config,
                examples,
                predict_pairs(model, cast(SimilarityTask, labelled.config), examples),
                main=metric,
                worst=0,
            )
            for examples in (labelled.dev, labelled.evaluated)
        )
        low, high = evaluation.intervals.get(metric, (None, None))
        return {
            "value": evaluation.score,
            "low": low,
            "high": high,
            "metrics": evaluation.metrics,
            "evaluated": evaluation.examples,
            "dev": dev.score,
            "rate": None,
            "rates": [],
            "epochs": 0.0,
            "examples": 0,
            "of_examples": len(labelled.train),
            "degenerate": evaluation.degenerate,
            "seconds": 0.0,
            "seconds_of_evaluation": time.monotonic() - began,
            "page": None,  # nothing was trained
        }

    def drop_weights(self, way: Way, fraction: float) -> None:
        """Delete the weights of a fit, but keep its page and its results."""
        out = self.folder / f"{way}-{fraction:g}"
        (out / "model").unlink(missing_ok=True)
        shutil.rmtree(out / "checkpoints", ignore_errors=True)

    def _spec(self, examples: int, dev: int) -> TaskSpec:
        task, split = self.labelled.task, self.labelled.split
        return TaskSpec(
            "task",
            task.kind,
            task.files,
            task.options,
            split=split,
            most_train=examples,
            most_dev=dev,
        )

    def _settings(self, way: Way, out: Path) -> FinetuneConfig:
        """Return the configuration of a fit, with the default epochs and learning rates."""
        made = FinetuneConfig(
            model=str(self.run),
            out=str(out),
            transfer="features" if way == "frozen" else "finetune",
            seed=self.seed,
            precision=self.precision,
            device=self.config.device,
            random_start=way == "random",
            baselines=False,
        )
        if way != "frozen":
            return made
        return replace(made, layers=self.rung.layers, network=self.rung.network)

    def _fit(self, spec: TaskSpec, settings: FinetuneConfig) -> dict[str, Any]:
        out = Path(settings.out)
        shutil.rmtree(out, ignore_errors=True)  # of a process that was killed
        out.parent.mkdir(parents=True, exist_ok=True)
        return finetune([spec], settings, silent, overwrite=True)

    def _evaluate(self, out: Path, results: dict[str, Any]) -> Found:
        """Return the results of a fit on the test file, or on dev if there is no test file."""
        metric, task = self.labelled.metric, self.labelled.task
        found: dict[str, Any] = results
        if task.test is None and results["examples"] < len(self.labelled.dev):
            found = self._evaluate_dev(out)  # the fit used a part of dev
        elif task.test is not None:
            files = task.files
            found = evaluate_file(
                self._fitted(out),
                task.test,
                None,
                make_columns(files.text, files.text2, files.label),
                form=files.format,
                main=metric,
                label_map=label_map(files.label_map),
                bad_rows=files.bad_rows,
                precision=self.precision,
            )
        low, high = found["intervals"].get(metric, (None, None))
        return {
            "value": found["metrics"][metric],
            "low": low,
            "high": high,
            "metrics": found["metrics"],
            "evaluated": found["examples"],
        }

    def _evaluate_dev(self, out: Path) -> dict[str, Any]:
        """Return the evaluation of a fit on all dev examples."""
        model, examples = self._fitted(out), self.labelled.dev
        name, runner = model.task_name(None), model.runner
        task = kind_of(self.labelled.task.kind).evaluated(model.tasks[name], examples)
        data = TaskData(name, task, runner.tokenizer, examples)
        precision, _ = choose_precision(runner.device, self.precision)
        predictions = predict(runner.learner, data, precision, runner.batch_tokens)
        return evaluate(task, examples, predictions, main=self.labelled.metric, worst=0).as_dict()

    def _fitted(self, out: Path) -> Model:
        return load(out, None if self.config.device == "auto" else self.config.device)


@dataclass(frozen=True)
class FitPlan:
    """The size of a fit that there is time for."""

    examples: int
    dev: int
    epochs: float = 0.0
    every: float = 1.0
    """The number of evaluations per epoch."""
    on_a_slice: bool = False
    """Whether learning rates are tried on a slice of the data; otherwise in whole fits."""
    rates: int = 1
    """The number of learning rates to try in whole fits; the likeliest ones are tried."""


def plan_frozen(examples: int, dev: int, seconds: float, speed: float) -> FitPlan:
    """Return the numbers of examples whose features the encoder has time to compute.

    The arguments are those of `plan_fit`.
    """
    readable = max(2, round(seconds * FORWARD * speed))
    dev = min(dev, max(1, readable // 4))
    return FitPlan(max(1, min(examples, readable - dev)), dev)


def plan_network(
    examples: int, dev: int, epochs: float, seconds: float, speed: float, network_speed: float
) -> FitPlan:
    """Return the plan of a network on frozen features. Features and training get half of the time
    each.

    Args:
        examples: the number of training examples.
        dev: the number of dev examples.
        epochs: the default number of epochs.
        seconds: the time for both.
        speed: as for `plan_frozen`.
        network_speed: the number of examples per second of training the network.
    """
    features = plan_frozen(examples, dev, seconds / 2, speed)
    return plan_fit(
        features.examples,
        features.dev,
        epochs,
        seconds / 2,
        network_speed,
        rates=1,
        has_dev=True,
    )


def plan_fit(
    examples: int,
    dev: int,
    epochs: float,
    seconds: float,
    speed: float,
    rates: int,
    has_dev: bool,
) -> FitPlan:
    """Return the plan of a fit that there is time for.

    Args:
        examples: the number of training examples.
        dev: the number of dev examples.
        epochs: the default number of epochs for so many examples.
        seconds: the time for the fit.
        speed: the number of examples per second of training.
        rates: the number of learning rates to try; 1: the rate is known.
        has_dev: whether there is a dev file, which is needed to try rates on a slice.
    """
    predicted = FORWARD * speed
    dev = min(dev, max(50, round(0.1 * seconds * predicted / EVALUATIONS)))
    every = min(1.0, (EVALUATIONS - 1) / epochs)
    evaluations = EVALUATIONS * dev / predicted
    if rates * (epochs * examples / speed + evaluations) <= seconds:
        return FitPlan(examples, dev, epochs, every, rates=rates)
    step = 32 / examples  # the shortest fit

    def epochs_in(share: float) -> float:
        return max(step, min(epochs, (share - evaluations) * speed / examples))

    on_a_slice = rates > 1 and has_dev
    fitting = epochs_in(seconds / (1 + SHARE) if on_a_slice else seconds / rates)
    while rates > 1 and fitting < min(epochs, LEAST_STEPS * step):
        rates, on_a_slice = (1 if on_a_slice else rates - 1), False
        fitting = epochs_in(seconds / rates)
    every = min(1.0, (EVALUATIONS - 1) / max(fitting, 1.0))
    return FitPlan(examples, dev, fitting, every, on_a_slice, rates)


def reason_of(error: Exception) -> str:
    """Return a line that says why a rung failed."""
    if isinstance(error, BertwrightError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error} (log.txt has the traceback)"
