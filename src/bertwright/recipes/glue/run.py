"""Run GLUE: fine-tune every available task over several seeds, and write a table and a submission.

```
RUN/ CoLA/ SST-2/ ...   each is a run of `recipes/finetune/run.py`
     glue.json  glue.md  submission/CoLA.tsv ...  submission.zip
```

The results are those of the dev sets, because only GLUE's server has the labels of the test sets. A
task's score is the mean of its metrics, as in GLUE (Wang et al. 2019). The score of MNLI is that of
the matched genres, whereas the server uses the mean of matched and mismatched genres. The average
is over the available tasks, with and without WNLI. The average in Devlin et al. (2019, table 1)
differs: it excludes WNLI, uses only F1 for MRPC and QQP and only Spearman's correlation for STS-B,
and includes both sets of MNLI.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertwright.atomic import atomic_file
from bertwright.config import values
from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference.files.predictions import evaluate_file, predict_file
from bertwright.inference.model import Model, load
from bertwright.progress import OnProgress, silent
from bertwright.recipes.finetune import results as task_results
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import TaskSpec
from bertwright.recipes.finetune.training import Diverged
from bertwright.recipes.glue.tasks import LIMITS, SUBMITTED, TASKS, Found, GlueTask, find_tasks
from bertwright.recipes.run_folder import CONFIG
from bertwright.report.glue import averages, table
from bertwright.report.verdict import GLUE, RESULTS
from bertwright.tasks.catalogue import KINDS
from bertwright.train.hardware import choose_precision

TABLE, SUBMISSION = "glue.md", "submission"
_FILES = (GLUE, TABLE, SUBMISSION, f"{SUBMISSION}.zip")
_OURS = {*_FILES, *(task.name for task in TASKS)}


def glue(
    data: Path,
    config: FinetuneConfig,
    say: Callable[[str], None],
    wanted: Sequence[str] = (),
    overwrite: bool = False,
    on_progress: OnProgress = silent,
) -> dict[str, Any]:
    """Fine-tune a checkpoint on every available task of GLUE; return the content of `glue.json`.

    A task that was completed in the run's folder with the same settings is not trained again.
    Therefore the same command continues an interrupted run, and tasks that are run one by one are
    collected in one table. If every seed of a task diverges, the task is listed under `failed`, and
    the other tasks are still trained.

    Args:
        data: GLUE's folder.
        config: the settings of every task; `out` is the folder that contains the runs of all tasks.
        say: prints a line.
        wanted: the names of the tasks to train; empty: all that are available.
        overwrite: whether to train completed tasks again.
        on_progress: called with the number of tokens processed.

    Raises:
        ConfigError: a name is not that of a GLUE task, or the folder has other content, or contains
            a task that was trained with other settings.
        DataError: `data` has no task, or a file cannot be read.
        Diverged: every seed of every task diverged.
    """
    run = Path(config.out)
    available, missing = find_tasks(data, wanted)
    existing = {path.name for path in run.iterdir()} if run.is_dir() else set()
    if existing - _OURS:
        raise ConfigError(
            f"{run} holds {sorted(existing - _OURS)[0]}, which is not of a GLUE run; choose "
            "another --out"
        )
    if missing:
        say(f"not in {data}: {', '.join(missing)}")
    named = {each.task.name for each in available}
    every = find_tasks(data)[0]
    done = {t.task.name: _finished(t, config, overwrite and t.task.name in named) for t in every}
    available = [each for each in every if each.task.name in named or done[each.task.name]]
    tasks: dict[str, dict[str, Any]] = {}
    failed: list[str] = []
    for each in available:
        results = done[each.task.name]
        if results is None:
            say(f"{each.task.name}:")
            try:
                results = finetune([_to_learn(each)], _config(each, config), say, True, on_progress)
            except Diverged as error:
                failed.append(each.task.name)
                if len(failed) == len(available):
                    raise
                say(f"warning: {each.task.name}: {error}")
                continue
        else:
            say(f"{each.task.name}: finished before")
        tasks[each.task.name] = _figures(each, results)
    trained = [each for each in available if each.task.name in tasks]
    submitted = _after_training(run, trained, tasks, config, say)
    whole = summary(config, tasks, missing, failed, submitted)
    _write(run, whole)
    return whole


def summary(
    config: FinetuneConfig,
    tasks: Mapping[str, Mapping[str, Any]],
    missing: Sequence[str],
    failed: Sequence[str],
    submitted: Sequence[str],
) -> dict[str, Any]:
    """Return the content of `glue.json`: the results of all tasks, and their averages."""
    scores = {name: task["score"]["mean"] for name, task in tasks.items()}
    others = [score for name, score in scores.items() if name != "WNLI"]
    return {
        "format": 1,
        "model": config.model,
        "split": "dev",
        "tasks": dict(tasks),
        "missing": list(missing),
        "failed": list(failed),
        "average": statistics.fmean(scores.values()),
        "average_without_wnli": statistics.fmean(others) if others else None,
        "submission": list(submitted),
        "not_submitted": [name for name in SUBMITTED if name not in submitted],
        "settings": values.to_dict(config),
    }


def _to_learn(found: Found) -> TaskSpec:
    task = found.task
    text, label = task.columns or (None, None)
    files = TaskFilesConfig(
        str(found.train),
        str(found.dev),
        text=text,
        label=label,
        metric=task.metrics[0],
        bad_rows="skip",
    )
    return TaskSpec(task.name, task.kind, files, KINDS[task.kind].options())


def _config(found: Found, config: FinetuneConfig) -> FinetuneConfig:
    return replace(config, out=str(Path(config.out) / found.task.name))


def _finished(found: Found, config: FinetuneConfig, overwrite: bool) -> dict[str, Any] | None:
    """Return the results of a task that was completed before; None if it must be trained.

    Raises:
        ConfigError: it was trained with other settings.
    """
    of_task = _config(found, config)
    folder = Path(of_task.out)
    if overwrite or not (folder / CONFIG).is_file():
        if not overwrite and folder.is_dir() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is no run; choose another --out")
        return None
    now = task_results.settings([_to_learn(found)], of_task)
    saved = values.read_toml(folder / CONFIG)
    differing = values.differing_keys(saved, tomllib.loads(values.to_toml(now)))
    changed = [key for key in differing if key != "out"]
    if changed:
        raise ConfigError(
            f"{folder} was trained with another {', '.join(changed)}, but all tasks of a table "
            "have the same configuration; choose another --out, or pass --overwrite and "
            f"{found.task.name} among --tasks to train it again"
        )
    if not (folder / RESULTS).is_file():
        return None
    text = (folder / RESULTS).read_text(encoding="utf-8")
    results: dict[str, Any] = json.loads(text)
    trained = len(results["seeds"]) + len(results.get("diverged", []))
    return results if trained == config.seeds else None


def _figures(found: Found, results: Mapping[str, Any]) -> dict[str, Any]:
    metrics = found.task.metrics
    scores = [
        statistics.fmean(seed["metrics"][metric] for metric in metrics) for seed in results["seeds"]
    ]
    return {
        "metrics": {metric: results["summary"][metric] for metric in metrics},
        "score": {
            "mean": statistics.fmean(scores),
            "sd": statistics.stdev(scores) if len(scores) > 1 else None,
        },
        "seeds": len(scores),
        "degenerate": sum(seed["degenerate"] for seed in results["seeds"]),
        "diverged": len(results.get("diverged", [])),
        "train": results["data"]["train"]["examples"],
        "dev": results["data"]["dev"]["examples"],
        "dev_file": found.dev.name,
        "baselines": results["baselines"],
        "warnings": results["warnings"],
        "more": {},
    }


def _after_training(
    run: Path,
    found: Sequence[Found],
    tasks: Mapping[str, dict[str, Any]],
    config: FinetuneConfig,
    say: Callable[[str], None],
) -> list[str]:
    """Evaluate on the second dev sets and write the submission; return the names of its files.

    The results of the second dev sets are added to `tasks`.
    """
    folder = run / SUBMISSION
    shutil.rmtree(folder, ignore_errors=True)
    (run / f"{SUBMISSION}.zip").unlink(missing_ok=True)
    submitted: list[str] = []
    for each in found:
        if each.more_dev is None and not each.tests:
            continue
        model = load(run / each.task.name, device=config.device)
        precision, _ = choose_precision(model.runner.device, config.precision)
        try:
            if each.more_dev is not None:
                more = evaluate_file(
                    model, str(each.more_dev), bad_rows="skip", intervals=False, precision=precision
                )
                tasks[each.task.name]["more"] = {
                    f"{metric}, mismatched": more["metrics"][metric] for metric in each.task.metrics
                }
            for name in write_submission(model, each.task, each.tests, folder, precision):
                submitted.append(name)
        except DataError as error:  # the results on dev are kept
            say(f"warning: {error}")
            tasks[each.task.name]["warnings"] = [*tasks[each.task.name]["warnings"], str(error)]
    if submitted:
        with zipfile.ZipFile(run / f"{SUBMISSION}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(folder.glob("*.tsv")):
                archive.write(file, file.name)
    return submitted


def write_submission(
    model: Model, task: GlueTask, tests: Sequence[tuple[str, Path]], folder: Path, precision: str
) -> Iterator[str]:
    """Write a file of predictions for each test set of a task, and yield the names of the files.

    `tests` has, for each test set, the name of the file to write and the path of the examples.

    Raises:
        DataError: a row of a test set cannot be read, or the model's labels are not GLUE's.
    """
    (trained,) = model.tasks.values()
    if set(trained.labels) != set(task.labels):
        raise DataError(
            f"the labels of {task.name} are {', '.join(trained.labels)}; GLUE's are "
            f"{', '.join(task.labels)}: its server would not know them"
        )
    for submitted, path in tests:
        lines: list[str] = []
        report = predict_file(model, str(path), lines.append, bad_rows="skip", precision=precision)
        if report.skipped:
            raise DataError(
                f"{' '.join(report.warnings)}; GLUE's server wants a prediction for every row, so "
                f"{submitted} is not written: put some text there"
            )
        with atomic_file(folder / submitted, overwrite=True) as file:
            file.write("index\tprediction\n")
            for number, prediction in enumerate(map(json.loads, lines)):
                id_ = prediction.get("id", "")
                file.write(f"{id_ if id_.isdecimal() else number}\t{_submitted(prediction)}\n")
        yield submitted


def _submitted(prediction: Mapping[str, Any]) -> str:
    if "value" in prediction:
        return f"{min(max(prediction['value'], LIMITS[0]), LIMITS[1]):.3f}"
    return str(prediction["label"])


def _write(run: Path, whole: Mapping[str, Any]) -> None:
    columns, rows = table(whole)
    lines = [f"| {' | '.join(cells)} |" for cells in [columns, ["---"] * len(columns), *rows]]
    with atomic_file(run / TABLE, overwrite=True) as file:
        model = Path(str(whole["model"])).name
        file.write("\n".join([f"# GLUE, {model}", "", *lines, "", averages(whole)]) + "\n")
    with atomic_file(run / GLUE, overwrite=True) as file:
        json.dump(whole, file, ensure_ascii=False, indent=1)
        file.write("\n")
