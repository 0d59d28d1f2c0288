"""How many labels does it take? A learning curve on the task that `quickstart_task` makes.

For each number of labelled examples, on the same files: the pre-trained model fine-tuned; the same
model from random weights, fine-tuned with the same settings; the pre-trained model frozen, with a
linear layer on the mean of its last layer's vectors; TF-IDF + logistic regression; and the most
frequent answer. Nothing is chosen by the test file: settings stand before, and the last weights
count. One seed, and 95 % intervals by bootstrap of the test examples.

Settings: a learning rate of 3e-4 and 160 / sqrt(examples) epochs, between 3 and 20. Written are
`RUN/learning_curve.json` and `OUT/finetuned/`, the pre-trained model fine-tuned on the most
examples.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.config.task import TaskConfig
from bertwright.errors import Interrupted
from bertwright.labelled.read import read_examples
from bertwright.progress import OnProgress, silent
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import TaskToLearn
from bertwright.recipes.quickstart.run import HELD_OUT, SEED, Places
from bertwright.recipes.quickstart.task import (
    HIDDEN,
    WORDS,
    LabelledFiles,
    TooFewPackages,
    write_task,
)
from bertwright.recipes.run_folder import ENVIRONMENT
from bertwright.tasks.baselines import baseline_predictions
from bertwright.tasks.evaluate import evaluate

SIZES = ((15.0, 6400), (3.0, 1600), (1.0, 400), (0.0, 100))
"""Labelled examples that so many minutes of pre-training pay for; all smaller sizes with them."""
LEARNING_RATE = 3e-4
NAME = "package"
"""Of the task; chance depends on it, too."""
LENGTH = 64
"""Tokens of a window: what the model was pre-trained on."""

LearningCurve = dict[str, Any]
"""`learning_curve.json`: `labels`, `sizes`, `epochs`, `test` {`file`, `examples`}, `methods` [{
`name`, `accuracy` [sizes], `intervals` [sizes][2], `degenerate` [sizes]}], `hidden`, `words`,
`model`, `command`; or `left_out`, the reason."""


@dataclass
class _Method:
    """One line of the curve."""

    name: str
    accuracy: list[float] = field(default_factory=list)
    intervals: list[list[float]] = field(default_factory=list)
    degenerate: list[bool] = field(default_factory=list)


def sizes_for(minutes: float) -> list[int]:
    """Numbers of labelled examples for a quickstart of so many minutes, rising."""
    return [size for least, size in reversed(SIZES) if minutes >= least]


def epochs_for(examples: int) -> int:
    """Passes over so many examples."""
    return min(20, max(3, round(160 / math.sqrt(examples))))


def learning_curve(
    places: Places, minutes: float, on_progress: OnProgress = silent
) -> LearningCurve:
    """Make the task, learn it in every way, and write the figures beside the run.

    A corpus of too few packages makes no task: the figures then say why.

    Args:
        places: of a quickstart whose run is finished.
        minutes: of its pre-training; they say how many labelled examples there shall be.
        on_progress: told the examples learned from, those of each epoch counted anew.

    Raises:
        Interrupted: a signal came; the pre-training run is whole.
    """
    try:
        files = write_task(places, HELD_OUT, sizes_for(minutes))
    except TooFewPackages as few:
        return _keep(places, {"format": 1, "left_out": str(few)})
    scratch = places.folder / ".finetuning"
    try:
        found = _learn(places, files, scratch, on_progress)
    except Interrupted as interrupted:
        raise Interrupted(
            interrupted.exit_code - 128,
            f"interrupted while fine-tuning; the pre-trained model in {places.run} and "
            f"{places.report} are whole",
        ) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return _keep(places, found)


def repeat_command(places: Places, examples: int, precision: str) -> str:
    """The command that fine-tunes on the file of so many examples, as it was done here."""
    return (
        f"bertwright finetune classification --model {places.run} "
        f"--train {places.task / f'train-{examples}.jsonl'} --dev {places.task / 'test.jsonl'} "
        f"--name {NAME} --max-length {LENGTH} --epochs {epochs_for(examples)} "
        f"--learning-rate {LEARNING_RATE:g} --keep last "
        f"--precision {precision} --evaluations-per-epoch 0.01 --out {places.folder / 'again'}"
    )


def _learn(
    places: Places, files: LabelledFiles, scratch: Path, on_progress: OnProgress
) -> LearningCurve:
    """Every method on every size."""
    sizes = [count for count, _ in files.train]
    epochs = [epochs_for(count) for count in sizes]
    environment = json.loads((places.run / ENVIRONMENT).read_text(encoding="utf-8"))
    tuned = FinetuneConfig(
        model=str(places.run),
        out=str(scratch),
        learning_rate=LEARNING_RATE,
        keep="last",
        evaluations_per_epoch=1e-9,  # at the end alone
        seed=SEED,
        precision=environment["precision"],  # as was measured to be faster here
    )
    frozen = replace(tuned, transfer="features", learning_rate=None)
    random = replace(tuned, random_start=True)
    methods = {name: _Method(name) for name in ("pretrained", "frozen", "random_start")}
    methods |= {name: _Method(name) for name in ("tfidf", "majority")}
    total = sum(2 * n * e + n for n, e in zip(sizes, epochs, strict=True))
    done = 0
    on_progress(done, total)
    for (count, path), passes in zip(files.train, epochs, strict=True):
        task = TaskToLearn(
            NAME,
            "classification",
            TaskFilesConfig(train=str(path), dev=str(files.test[1]), max_length=LENGTH),
        )
        last = count == sizes[-1]
        for name, config in (
            ("pretrained", replace(tuned, epochs=passes)),
            ("frozen", frozen),
            ("random_start", replace(random, epochs=passes)),
        ):
            if last and name == "pretrained":
                config = replace(config, out=str(places.finetuned))
            results = finetune([task], config, silent, overwrite=True)
            _add(
                methods[name],
                results["summary"]["accuracy"]["mean"],
                results["intervals"]["accuracy"],
                results["degenerate"],
            )
            done += count if name == "frozen" else count * passes
            on_progress(done, total)
        _baselines(methods, files.labels, path, files.test[1])
    return {
        "format": 1,
        "labels": list(files.labels),
        "sizes": sizes,
        "epochs": epochs,
        "learning_rate": LEARNING_RATE,
        "test": {"file": str(files.test[1]), "examples": files.test[0]},
        "methods": [vars(method) for method in methods.values()],
        "hidden": HIDDEN,
        "words": list(WORDS),
        "model": str(places.finetuned),
        "command": repeat_command(places, sizes[-1], tuned.precision),
    }


def _baselines(methods: dict[str, _Method], labels: Sequence[str], train: Path, test: Path) -> None:
    """What needs no BERT, judged as the others are."""
    task = TaskConfig("classification", tuple(labels))
    learned, asked = (read_examples(str(p), "classification").examples for p in (train, test))
    for name, predictions in baseline_predictions(task, learned, asked, seed=SEED).items():
        found = evaluate(task, asked, predictions, worst=0)
        _add(methods[name], found.score, found.intervals["accuracy"], found.degenerate)


def _add(method: _Method, accuracy: float, interval: Sequence[float], is_degenerate: bool) -> None:
    method.accuracy.append(float(accuracy))
    method.intervals.append([float(end) for end in interval])
    method.degenerate.append(bool(is_degenerate))


def _keep(places: Places, found: LearningCurve) -> LearningCurve:
    """Write the figures beside the run."""
    path = places.run / "learning_curve.json"
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return found
