"""Write the results of a fine-tuning run: metrics, predictions on dev, and the best model with its
card.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertwright.atomic import atomic_folder, write_manifest
from bertwright.checkpoint import checkpoint, find
from bertwright.checkpoint.opened import Opened
from bertwright.config import values
from bertwright.config.finetune import FinetuneConfig
from bertwright.labelled.examples import (
    Example,
    GenerationExample,
    TaggingExample,
    TextExample,
)
from bertwright.models.layout import Layout
from bertwright.models.load import system_of_config
from bertwright.nn.features import layer_numbers
from bertwright.nn.objective import Learner
from bertwright.recipes.finetune.setup import TaskSetup, TaskSpec
from bertwright.recipes.finetune.training import SeedRun
from bertwright.recipes.run_folder import ENVIRONMENT
from bertwright.report.card import card
from bertwright.report.verdict import PREDICTIONS, RESULTS
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.evaluate import Evaluation, evaluate
from bertwright.tasks.span.options import SpanTask

TASKS = "tasks.toml"
MOST_EXAMPLES, MOST_CHARACTERS = 3, 300
"""The maximum number of texts in a card, and of characters of each text."""


def settings(tasks: Sequence[TaskSpec], config: FinetuneConfig) -> dict[str, Any]:
    """Return the content of `config.toml`, with which `bertwright finetune KIND --config` repeats
    the run.

    For one task it has all keys. For several tasks it has the run's keys and `tasks`, the path of
    the file that `write_tasks` writes.
    """
    if len(tasks) > 1:
        return {**values.to_dict(config), "tasks": str(Path(config.out) / TASKS)}
    (task,) = tasks
    return {
        "name": task.name,
        **values.to_dict(config),
        **values.to_dict(task.files),
        **values.to_dict(task.options),
    }


def write_tasks(run: Path, tasks: Sequence[TaskSpec]) -> None:
    """Write the file for `bertwright finetune multitask --tasks`, with a section for each task."""
    sections = {
        task.name: {
            "kind": task.kind,
            **values.to_dict(task.files),
            **values.to_dict(task.options),
        }
        for task in tasks
    }
    (run / TASKS).write_text(values.to_toml(sections), encoding="utf-8")


def figures(
    config: FinetuneConfig,
    setups: Sequence[TaskSetup],
    runs: Sequence[SeedRun],
    diverged: Sequence[int],
    baselines: Mapping[str, Mapping[str, Evaluation]],
    depth: int,
    trials: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the content of `results.json`: the results of the one task, or of each task by name.

    Args:
        config: the configuration, with the values that were chosen for the run.
        runs: the results of the completed seeds.
        diverged: the numbers of the seeds that diverged.
        baselines: the evaluations of the baselines, by task and name.
        trials: the learning rates that were tried.
    """
    best = max(runs, key=lambda each: each.score)
    shared = {"format": 1, "model": config.model, "transfer": config.transfer}
    shared |= {"learning_rates": [*trials]}
    by_task = {
        setup.task_name: shared
        | _of_task(setup, runs, diverged, best, baselines.get(setup.task_name, {}), depth)
        | {
            "settings": values.to_dict(config)
            | values.to_dict(setup.files)
            | values.to_dict(setup.options)
        }
        for setup in setups
    }
    if len(setups) == 1:
        return by_task[setups[0].task_name]
    return shared | {"best_seed": best.seed, "tasks": by_task}


def save(
    run: Path,
    learner: Learner,
    opened: Opened,
    results: Mapping[str, Any],
    setups: Sequence[TaskSetup],
    best: SeedRun,
) -> Path:
    """Write the results, the predictions and the best model; return the model's folder."""
    text = json.dumps(values.plain(results), indent=1, ensure_ascii=False)
    (run / RESULTS).write_text(text + "\n", encoding="utf-8")
    with (run / PREDICTIONS).open("w", encoding="utf-8") as file:
        for setup in setups:
            predictions = best.predictions[setup.task_name]
            gold = kind_of(setup.task.kind).gold
            for example, prediction in zip(setup.dev.examples, predictions, strict=True):
                line = {"task": setup.task_name, "line": example.line, "gold": gold(example)}
                line |= prediction.as_dict()
                file.write(json.dumps(values.plain(line), ensure_ascii=False) + "\n")
    system = system_of_config(learner.encoder.config)
    length = opened.max_length
    if length is not None:
        length = max(length, *(setup.task.max_length for setup in setups))
    environment = json.loads((run / ENVIRONMENT).read_text(encoding="utf-8"))
    folder = run / find.CHECKPOINTS / f"step-{best.step:08d}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(folder, overwrite=True) as partial:
        checkpoint.save(
            partial,
            learner,
            opened.folder,
            card(
                results,
                environment,
                system.row.name,
                system.layout is not Layout,
                example_texts(setups[0].dev.examples),
                learner.encoder.spec.pooled,
            ),
            tasks={setup.task_name: best.tasks[setup.task_name] for setup in setups},
            trained_length=length,
        )
        write_manifest(partial, {"format": 1, "step": best.step})
    find.write_latest(run, folder.name)
    return folder


def example_texts(examples: Sequence[Example]) -> list[str]:
    """Return a few short dev texts, which the card offers for trying the model.

    For classification, the texts have different labels. For tasks other than those of single texts,
    the result is empty.
    """
    texts: dict[Any, str] = {}
    for example in examples:
        label: Any = len(texts)
        if isinstance(example, GenerationExample):
            text = example.source
        elif isinstance(example, TaggingExample):
            text = example.text or " ".join(example.words)
        elif isinstance(example, TextExample) and example.text2 is None:
            text = example.text
            label = example.label if isinstance(example.label, str) else label
        else:
            return []
        if len(text) <= MOST_CHARACTERS and "\n" not in text and text not in texts.values():
            texts.setdefault(label, text)
        if len(texts) == MOST_EXAMPLES:
            break
    return list(texts.values())


def _layer_weights(setup: TaskSetup, best: SeedRun, depth: int) -> dict[str, float]:
    """Return the weights of the layers that a head mixes, by the number of the layer.

    They sum to 1. For other heads, the result is empty.
    """
    layers = setup.task.head.layers
    if layers is None or not layers.startswith("mix"):
        return {}
    weights = best.state[f"objectives.{setup.task_name}.mix.weights"].softmax(0).tolist()
    return dict(zip(map(str, layer_numbers(layers, depth)), weights, strict=True))


def _of_task(
    setup: TaskSetup,
    runs: Sequence[SeedRun],
    diverged: Sequence[int],
    best: SeedRun,
    baselines: Mapping[str, Evaluation],
    depth: int,
) -> dict[str, Any]:
    name = setup.task_name
    task = best.tasks[name]
    whole = evaluate(
        task, setup.dev.examples, best.predictions[name], main=setup.files.metric
    ).as_dict()
    seeds = [
        {
            "seed": run.seed,
            "metrics": run.evaluations[name].metrics,
            "best_epoch": run.best_epoch,
            "epochs": run.epochs,
            "degenerate": run.evaluations[name].degenerate,
            "seconds": round(run.seconds, 3),
            "examples_per_second": round(run.examples_per_second, 2),
        }
        for run in runs
    ]
    failed = [run.seed for run in runs if run.evaluations[name].degenerate]
    warnings = [*setup.warnings, *whole.pop("warnings")]
    if failed:
        warnings.append(
            f"{_seeds(failed, len(runs))} degenerate, with the same prediction for every example; "
            "try more epochs, a lower --learning-rate, more --seeds or a longer --warmup"
        )
    if diverged:
        some = _seeds(diverged, len(runs) + len(diverged))
        warnings.append(f"{some} diverged and in no figure: lower --learning-rate")
    whole["fit"] = best.fits.get(name, {})
    if isinstance(task, SpanTask):
        whole["tuned"] = {"null_threshold": task.null_threshold} if task.unanswerable else {}
    return {
        "name": name,
        "task": values.to_dict(task),
        "data": setup.facts,
        "seeds": seeds,
        "diverged": list(diverged),
        "best_seed": best.seed,
        "layer_weights": _layer_weights(setup, best, depth),
        "summary": _summary(runs, name),
        "baselines": {key: evaluation.metrics for key, evaluation in baselines.items()},
        "lengths": {"train": setup.train.lengths.as_dict(), "dev": setup.dev.lengths.as_dict()},
        **whole,
        "warnings": list(dict.fromkeys(warnings)),
    }


def _seeds(some: Sequence[int], total: int) -> str:
    """Return a description such as `2 of 3 seeds (1, 3)`."""
    plural = "" if total == 1 else "s"
    return f"{len(some)} of {total} seed{plural} ({', '.join(map(str, some))})"


def _summary(runs: Sequence[SeedRun], name: str) -> dict[str, dict[str, float | None]]:
    """Return mean, standard deviation and maximum of every metric over the seeds.

    The standard deviation is that of a sample, and None for a single seed.
    """
    summary: dict[str, dict[str, float | None]] = {}
    for metric in runs[0].evaluations[name].metrics:
        of_seeds = [run.evaluations[name].metrics[metric] for run in runs]
        sd = statistics.stdev(of_seeds) if len(of_seeds) > 1 else None
        summary[metric] = {"mean": statistics.fmean(of_seeds), "sd": sd, "max": max(of_seeds)}
    return summary
