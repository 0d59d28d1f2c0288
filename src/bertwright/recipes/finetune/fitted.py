"""Fit linear heads on frozen vectors without steps (`transfer/linear.py`): as the whole training,
or as its start (`transfer/head_start.py`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from bertwright.arrays import Float32s, Int64s
from bertwright.data.randomness import make_key, permutation
from bertwright.nn.finite import require_finite
from bertwright.nn.objective import Learner
from bertwright.progress import OnProgress, silent
from bertwright.recipes.finetune.folds import examples_of, of_folds
from bertwright.recipes.finetune.frozen import batches_in_time
from bertwright.recipes.finetune.setup import Fold, TaskSetup
from bertwright.recipes.finetune.training import SeedRun, TaskHardware, evaluate_task, judge
from bertwright.tasks.batch import LinearBatch
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.head import Head
from bertwright.tasks.predict import predict
from bertwright.tasks.predictions import Prediction
from bertwright.tasks.task_data import make_batch
from bertwright.train.log import Log
from bertwright.transfer.head_start import HeadStart, place
from bertwright.transfer.linear import LinearFit, fit_classes, fit_label_sets, fit_numbers

MOST_NUMBERS = 1 << 28
"""The maximum number of components of all vectors that a head is fitted on (1 GB in float32). If
there are more, a random part of the examples is used.
"""


MOST_TO_CHOOSE, MOST_TO_START = 5_000, 20_000
"""The maximum number of texts whose vectors choose how pairs are read, and of those on which the
start of a head is fitted."""


@dataclass(frozen=True)
class FrozenVectors:
    """The vectors of a task's training texts or words, with their labels."""

    vectors: Float32s
    """The vectors, `[R, F]`."""
    labels: Int64s
    """Classes or numbers, `[R]`; label sets, `[R, C]`."""
    groups: Int64s
    """The number of the example that each row belongs to, `[R]`."""


def read_vectors(
    learner: Learner,
    setup: TaskSetup,
    hardware: TaskHardware,
    seed: int,
    on_progress: OnProgress = silent,
    seconds: float | None = None,
    most: int | None = None,
) -> FrozenVectors:
    """Encode the training examples of a task once, and return the vectors that its head reads.

    If there are more than `most` texts, the vectors would exceed `MOST_NUMBERS`, or encoding takes
    longer than `seconds`, a random part of the examples is encoded.
    """
    name, task, instances = setup.task_name, setup.task, setup.train.instances
    head, device = cast(Head[Any], learner.objectives[name]), hardware.device
    of_words = kind_of(task.kind).scores_tokens
    rows = sum(len(cast(Sequence[int], n.label)) if of_words else 1 for n in instances)
    width = cast(Any, head).scorer.in_features
    part = min(1.0, MOST_NUMBERS / max(1, rows * width))
    order = permutation(make_key("vectors", seed), len(instances))
    chosen = order[: max(1, int(part * len(instances)))][:most].tolist()
    vectors, labels, groups = [], [], []
    done, total = 0, sum(instances[row].num_tokens for row in chosen)
    for numbers in batches_in_time(instances, hardware.predicted_tokens, chosen, seconds):
        batch = make_batch(name, task, instances, numbers, device)
        with torch.inference_mode():
            features = head.read(learner.encode(batch, [head]), batch)
        vectors.append(require_finite(features.float(), "vectors").cpu().numpy())
        assert isinstance(batch, LinearBatch)
        assert batch.labels is not None
        labels.append(batch.labels.cpu().numpy())
        groups.append(np.array(batch.labelled))
        done += batch.num_tokens
        on_progress(done, total)
    return FrozenVectors(*map(np.concatenate, (vectors, labels, groups)))


def fit_head(setup: TaskSetup, data: FrozenVectors, seed: int) -> LinearFit:
    """Fit a task's linear head. The vectors of `data` are not changed."""
    task, x = setup.task, data.vectors.copy()
    weights = None if setup.class_weights is None else setup.class_weights.tolist()
    if kind_of(task.kind).reader.numbers:
        return fit_numbers(x, data.labels.astype(np.float64))
    if data.labels.ndim == 2:
        return fit_label_sets(x, data.labels > 0.5, data.groups, seed, weights)
    return fit_classes(x, data.labels, len(task.labels), data.groups, seed, weights)


def choose_reading(
    candidates: Sequence[tuple[Learner, TaskSetup]], hardware: TaskHardware, seed: int
) -> TaskSetup:
    """Return the setup of a task whose vectors predict its training labels best, by the
    cross-validated loss of linear heads.
    """
    losses = []
    for learner, setup in candidates:
        learner.to(hardware.device).eval()
        data = read_vectors(learner, setup, hardware, seed, most=MOST_TO_CHOOSE)
        fit = fit_head(setup, data, seed)
        losses.append(np.inf if fit.choice.loss is None else fit.choice.loss)
    return candidates[int(np.argmin(losses))][1]


def fit_start(
    learner: Learner,
    setups: Sequence[TaskSetup],
    hardware: TaskHardware,
    seed: int,
    on_progress: OnProgress = silent,
    seconds: float | None = None,
) -> HeadStart:
    """Fit the heads of these tasks on the vectors of the encoder as it is now."""
    learner.to(hardware.device).eval()
    fits: dict[str, LinearFit] = {}
    norms: dict[str, float | None] = {}
    for setup in setups:
        name = setup.task_name
        data = read_vectors(learner, setup, hardware, seed, on_progress, seconds, MOST_TO_START)
        fits[name] = fit_head(setup, data, seed)
        random = learner.objectives[name].get_parameter("classifier.weight")
        norms[name] = None if kind_of(setup.task.kind).reader.numbers else random.norm().item()
    return HeadStart(fits, norms)


@dataclass
class Fitting:
    """Fits the heads of all tasks on their vectors, for one seed at a time.

    The seed determines the folds of cross-validation.
    """

    learner: Learner
    """The frozen encoder with the heads, on its device."""
    setups: Sequence[TaskSetup]
    hardware: TaskHardware
    data: Sequence[FrozenVectors]
    """The vectors of each task."""

    def train_seed(self, seed: int, log: Log | None) -> SeedRun:
        """Fit all heads and evaluate them on dev."""
        began = time.monotonic()
        run = SeedRun(seed, step=1, best_epoch=1.0, epochs=1.0)
        for setup, data in zip(self.setups, self.data, strict=True):
            if setup.folds:
                judge(run, setup, self._by_folds(setup, data, seed))
            fit = fit_head(setup, data, seed)
            place(self.learner, setup.task_name, fit)
            run.fits[setup.task_name] = {
                "rows": len(data.vectors),
                "features": data.vectors.shape[1],
                "alpha" if kind_of(setup.task.kind).reader.numbers else "C": fit.choice.strength,
                "temperature": fit.choice.temperature,
                "cross_validated_loss": fit.choice.loss,
            }
        run.seconds = time.monotonic() - began
        for setup in self.setups:
            if not setup.folds:
                evaluate_task(run, setup, self.learner, self.hardware)
        state = self.learner.state_dict()
        run.state = {
            name: value.detach().to("cpu", copy=True)
            for name, value in state.items()
            if name.startswith("objectives.")
        }
        examples = sum(len(setup.train.examples) for setup in self.setups)
        run.examples_per_second = examples / max(1e-9, run.seconds)
        if log is not None:
            metrics: dict[str, float] = {}
            for name, evaluation in run.evaluations.items():
                prefix = "" if len(self.setups) == 1 else f"{name}."
                metrics |= {f"{prefix}{key}": value for key, value in evaluation.metrics.items()}
            tokens = sum(setup.train.num_tokens for setup in self.setups)
            record: dict[str, float | int | str] = {
                "step": 1,
                "tokens": tokens,
                "seconds": round(run.seconds, 3),
                "split": "dev",
                "epoch": 1.0,
                **metrics,
            }
            log.write(record)
        return run

    def _by_folds(self, setup: TaskSetup, data: FrozenVectors, seed: int) -> list[Prediction]:
        """Return the predictions of the examples, each by a head that was fitted on other folds."""

        def predictions(fold: Fold) -> Sequence[Prediction]:
            rows = np.isin(data.groups, fold.train)
            part = FrozenVectors(data.vectors[rows], data.labels[rows], data.groups[rows])
            place(self.learner, setup.task_name, fit_head(setup, part, seed))
            how = self.hardware.precision, self.hardware.predicted_tokens
            return predict(self.learner, examples_of(setup, fold.held), *how)

        return of_folds(setup, predictions)
