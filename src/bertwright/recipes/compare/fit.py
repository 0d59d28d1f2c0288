"""Fit the task of a comparison in several ways, and compute the baselines of the kind of task.

The ways are a linear layer on a system's frozen features, fine-tuning the whole system, and
fine-tuning the same network from random weights. Linear layers on frozen features are fitted
without steps (`recipes/finetune/fitted.py`).

A fit takes `task_minutes` at most, and `finetune` keeps this time. In it, a model is trained for
all its epochs if there is time, and its learning rate falls to zero at the end of its epochs or of
its time. Dev selects the epoch, and the test file is read once, by the selected model.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from bertwright.config.finetune import FinetuneConfig, label_map
from bertwright.inference.files.pairs import predict_pairs
from bertwright.inference.files.predictions import evaluate_file
from bertwright.inference.model import load
from bertwright.labelled.columns import make_columns
from bertwright.machine import core_times, waited_since
from bertwright.progress import silent
from bertwright.recipes.compare.labelled import Labelled
from bertwright.recipes.compare.steps import OVERHEAD, Comparison, Done, Step, SystemStep
from bertwright.recipes.compare.train import Pretrain, write_page
from bertwright.recipes.finetune.defaults import epochs_of
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import TaskSpec, draw
from bertwright.report.comparison.rows import WAYS, Row, Way
from bertwright.report.numbers import baseline_title
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.evaluate import evaluate
from bertwright.tasks.predict import predict
from bertwright.tasks.similarity.options import SimilarityTask
from bertwright.tasks.task_data import TaskData
from bertwright.train.hardware import choose_precision

EVALUATIONS = 6
"""The maximum number of evaluations of a fit on dev."""
MOST_DEV = 500
"""The maximum number of dev examples that select the epoch and the learning rate. More would take
the time of a short fit.
"""


def labelled_of(of: Comparison) -> Labelled:
    """Return the task, which steps of the task have."""
    assert of.labelled is not None
    return of.labelled


@dataclass(frozen=True)
class Baselines(Step):
    """Compute the baselines of the kind of task."""

    fraction: float
    seed: int
    what = "Baselines"

    @property
    def name(self) -> str:
        return f"baselines/{self.fraction:g}-{self.seed}"

    def key(self, of: Comparison) -> Any:
        return {"task": labelled_of(of).key}

    def seconds(self, of: Comparison) -> float:
        return 5.0

    def do(self, of: Comparison, say: Callable[[str], None]) -> Done:
        own = labelled_of(of)
        kind = kind_of(own.task.kind)
        if not kind.has_baselines:
            return Done()
        examples = own.count(self.fraction)
        train, rows = draw(own.train, examples, self.seed), []
        predicted = kind.baselines(own.config, train, own.evaluated, self.seed, False)
        for name, predictions in predicted.items():
            found = evaluate(own.config, own.evaluated, predictions, main=own.metric, worst=0)
            low, high = found.intervals.get(own.metric, (None, None))
            rows.append(
                Row(
                    "task",
                    name,
                    baseline_title(name),
                    self.seed,
                    way="baseline",
                    fraction=self.fraction,
                    metric=own.metric,
                    value=found.score,
                    low=low,
                    high=high,
                    metrics=found.metrics,
                    examples=examples,
                    of_examples=examples,
                )
            )
        return Done(rows)


@dataclass(frozen=True)
class Fit(SystemStep):
    """Fit the task with a system in one way, and evaluate the model that dev selects."""

    way: Way
    fraction: float
    measure = "task"

    @property
    def part(self) -> str:  # type: ignore[override]
        return f"{self.way}-{self.fraction:g}"

    @property
    def shown(self) -> str:  # type: ignore[override]
        return WAYS[self.way]

    def key(self, of: Comparison) -> Any:
        from_run = of.config.pretrained_by(self.seed)
        again = {} if from_run == self.seed else {"pretrained_by": from_run}
        return {
            "task": labelled_of(of).key,
            "task_minutes": of.fit_minutes(self.entry.name),
            **again,
        }

    def needs(self, of: Comparison) -> Sequence[Pretrain]:
        entry = of.systems[self.entry.is_that_of or self.entry.name]
        return [Pretrain(entry, of.config.pretrained_by(self.seed))]

    def seconds(self, of: Comparison) -> float:
        return 60 * of.fit_minutes(self.entry.name) + OVERHEAD

    def row(self, **figures: Any) -> Row:
        return super().row(way=self.way, fraction=self.fraction, **figures)

    def do(self, of: Comparison, say: Callable[[str], None]) -> Done:
        if self.way == "frozen" and kind_of(labelled_of(of).task.kind).vectors:
            row = self._as_it_is(of)
        else:
            row = self._fit(of, say)
        notes = [f"{self.entry.name}-{self.seed}: {self.shown}: {row.value:.4f}"]
        if row.page is False:
            notes.append(f"{self.what}: its page could not be written; log.txt has the reason")
        return Done([row], notes=notes)

    def _fit(self, of: Comparison, say: Callable[[str], None]) -> Row:
        own, out = labelled_of(of), of.task_folder(self.entry, self.seed) / self.part
        examples, minutes = own.count(self.fraction), of.fit_minutes(self.entry.name)
        settings = self._settings(of, out, examples)
        task = TaskSpec(
            "task",
            own.task.kind,
            own.task.files,
            own.task.options,
            split=own.split,
            most_train=examples,
            most_dev=MOST_DEV,
        )
        shutil.rmtree(out, ignore_errors=True)  # of a process that was killed
        out.parent.mkdir(parents=True, exist_ok=True)
        before, began = core_times(), time.monotonic()
        found = finetune([task], settings, silent, overwrite=True, seconds=60 * minutes)
        seconds, waited = time.monotonic() - began, waited_since(before)
        began = time.monotonic()
        evaluated = self._evaluate(of, out, settings, found)
        low, high = evaluated["intervals"].get(own.metric, (None, None))
        row = self.row(
            metric=own.metric,
            value=evaluated["metrics"][own.metric],
            low=low,
            high=high,
            metrics=evaluated["metrics"],
            run=of.inside(out),
            page=write_page(out, say),
            minutes=minutes,
            seconds=seconds,
            seconds_of_evaluation=time.monotonic() - began,
            waited=waited,
            examples=found["data"]["train"]["examples"],
            of_examples=examples,
            epochs=found["seeds"][0]["epochs"],
            rate=found["settings"]["learning_rate"],
            degenerate=bool(evaluated["degenerate"]),
        )
        if self.way == "random" or self.seed != of.config.seed:  # its page and results stay
            (out / "model").unlink(missing_ok=True)
            shutil.rmtree(out / "checkpoints", ignore_errors=True)
        return row

    def _settings(self, of: Comparison, out: Path, examples: int) -> FinetuneConfig:
        """Return the configuration of the fit."""
        (pretrain,) = self.needs(of)
        trained = of.done(pretrain)
        settings = FinetuneConfig(
            model=str(of.run_folder(self.entry, pretrain.seed)),
            out=str(out),
            transfer="features" if self.way == "frozen" else "finetune",
            seed=self.seed,
            precision="auto" if trained is None else trained.facts["precision"],
            device=of.config.device,
            random_start=self.way == "random",
            baselines=False,
        )
        if self.way == "frozen":
            layers, network = self.entry.layers, self.entry.network
            settings = replace(settings, layers=layers, network=network)
            if self.entry.network == "linear":  # it is fitted without steps
                return settings
        epochs = epochs_of(settings, examples)
        every = min(1.0, (EVALUATIONS - 1) / epochs)
        return replace(settings, epochs=epochs, evaluations_per_epoch=every)

    def _evaluate(
        self, of: Comparison, out: Path, settings: FinetuneConfig, found: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the results on the test file, or on all of dev if there is no test file."""
        own = labelled_of(of)
        files, test = own.task.files, own.task.test
        if test is not None:
            return evaluate_file(
                load(out, of.config.device),
                test,
                None,
                make_columns(files.text, files.text2, files.label),
                form=files.format,
                main=own.metric,
                label_map=label_map(files.label_map),
                bad_rows=files.bad_rows,
                precision=settings.precision,
            )
        if found["examples"] == len(own.dev):
            return found
        model = load(out, of.config.device)
        name, runner = model.task_name(None), model.runner
        task = kind_of(own.task.kind).evaluated(model.tasks[name], own.dev)
        data = TaskData(name, task, runner.tokenizer, own.dev)
        precision, _ = choose_precision(runner.device, settings.precision)
        predictions = predict(runner.learner, data, precision, runner.batch_tokens)
        return evaluate(task, own.dev, predictions, main=own.metric, worst=0).as_dict()

    def _as_it_is(self, of: Comparison) -> Row:
        """Return the result of the vectors of the pre-training run, without training."""
        own, began = labelled_of(of), time.monotonic()
        (pretrain,) = self.needs(of)
        model = load(of.run_folder(self.entry, pretrain.seed), of.config.device)
        task = cast(SimilarityTask, own.config)
        predictions = predict_pairs(model, task, own.evaluated)
        found = evaluate(own.config, own.evaluated, predictions, main=own.metric, worst=0)
        low, high = found.intervals.get(own.metric, (None, None))
        return self.row(
            metric=own.metric,
            value=found.score,
            low=low,
            high=high,
            metrics=found.metrics,
            seconds=0.0,
            seconds_of_evaluation=time.monotonic() - began,
            examples=0,
            of_examples=len(own.train),
            epochs=0.0,
            degenerate=found.degenerate,
        )
