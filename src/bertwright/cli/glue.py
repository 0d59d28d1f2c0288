"""`bertwright glue`: fine-tune on the tasks of GLUE, and write a table and a submission."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bertwright.cli.options import EVERY_KEY, ConfigFile, Json, Overwrite
from bertwright.cli.output import print_json, print_table
from bertwright.config.finetune import FinetuneConfig
from bertwright.console import bar, say
from bertwright.errors import BertwrightError


def glue(
    *,
    config: Annotated[FinetuneConfig, EVERY_KEY],
    data: Path,
    tasks: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    config_file: ConfigFile = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Fine-tune on each task of GLUE in a folder, and print the mean and standard deviation of its
    score over seeds, and the average over tasks.

    Each task is a run in a folder of --out. The same command continues with the tasks that are not
    finished. If a task has a test.tsv, its predictions are written for GLUE's server. All other
    options apply to every task.

    Args:
        data: GLUE's folder: CoLA/train.tsv, CoLA/dev.tsv, ...
        tasks: Names of the tasks, as CoLA RTE; unset: all tasks in the folder.
    """
    from bertwright.recipes.glue.tasks import find_tasks

    find_tasks(data, tasks)  # finds a wrong name before torch is imported

    from bertwright.recipes.glue.run import glue as run_glue

    with bar("Encoding", "tokens") as on_progress:
        found = run_glue(data, config, say, tasks, overwrite, on_progress)
    if json:
        print_json(found)
    else:
        _print(found, config)
    if found["failed"]:
        raise BertwrightError(
            f"{', '.join(found['failed'])}: every seed diverged, and the average is of the other "
            "tasks; choose another --out and a lower --learning-rate"
        )


def _print(found: dict[str, Any], config: FinetuneConfig) -> None:
    """Print the table, its averages, warnings, and what the submission contains."""
    from bertwright.recipes.glue.run import SUBMISSION
    from bertwright.report.glue import averages, notes, table

    columns, rows = table(found)
    shown = [n for n, name in enumerate(columns) if name not in ("train", "dev", "notes")]
    print_table(
        [columns[n] for n in shown],
        [[row[n] for n in shown] for row in rows],
        f"GLUE, dev sets, {Path(config.model).name}",
    )
    for name, task in found["tasks"].items():
        if said := notes(task):
            say(f"warning: {name}: {said} of {task['seeds'] + task['diverged']} seeds")
    print(averages(found))
    if found["submission"]:
        say(f"{config.out}/{SUBMISSION}.zip is for GLUE's server: {', '.join(found['submission'])}")
        if found["not_submitted"]:
            say(f"the server wants these too: {', '.join(found['not_submitted'])}")
