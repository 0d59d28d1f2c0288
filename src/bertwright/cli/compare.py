"""`bertwright compare`: the systems from n-grams to BERT on one text and one task, on one page."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from bertwright.cli.options import (
    EVERY_KEY,
    EVERY_KEY_OF_SEVERAL,
    ConfigFile,
    Flag,
    Json,
    KindOfTask,
    OptionsOfKind,
    Overwrite,
    given,
    of_kind,
    refuse_other_options,
)
from bertwright.cli.output import print_json, print_table
from bertwright.config import values
from bertwright.config.compare import CompareConfig
from bertwright.config.corpus import CorpusConfig
from bertwright.config.finetune import TaskFilesConfig
from bertwright.config.task import TaskOptions
from bertwright.console import say, step_bars
from bertwright.errors import ConfigError
from bertwright.progress import clock
from bertwright.tasks.catalogue import KINDS

HOW = (
    "bertwright compare corpus/ --train labelled.tsv --test test.tsv --out runs/ladder; or "
    "bertwright compare --preset python --out runs/ladder, on text of this computer"
)

SHORT = {
    "parameters": "weights",
    "tokens read": "tokens",
    "tokens a second": "a second",
    "training": "time",
    "bits a character": "bits",
    "of it spelling": "spelling",
    "pseudo-bits": "pseudo",
    "minimal pairs": "pairs",
}
"""Name of a column of a table -> the shorter name that is shown in a terminal."""
MOST_COLUMNS = 7
"""The maximum number of columns of a table in a terminal, without its first column."""


def verb_for(words: Sequence[str]) -> Callable[..., None]:
    """Return the verb with the options of the kind of task that --kind names.

    Raises:
        ConfigError: an option of the command line, or a key of the file of --config, is one of
            other kinds only.
    """
    kind = given(words, "kind")
    file = given(words, "config")
    if kind is None and file is not None and Path(values.at_home(file)).is_file():
        kind = values.read_toml(file).get("kind")
    kind = "classification" if kind is None else str(kind)
    if kind in KINDS:
        refuse_other_options(kind, words)
    return of_kind(_verb(), kind)


def _verb() -> Callable[..., None]:
    """Return the verb `compare`, whose options `of_kind` completes."""

    def compare(
        *corpus: str,
        config: Annotated[CompareConfig, EVERY_KEY_OF_SEVERAL],
        files: Annotated[TaskFilesConfig | None, EVERY_KEY_OF_SEVERAL] = None,
        reading: Annotated[CorpusConfig, EVERY_KEY] = CorpusConfig(),
        options: OptionsOfKind = None,
        kind: KindOfTask = "classification",
        test: str | None = None,
        preset: Literal["python"] | None = None,
        dry_run: Flag = False,
        open_page: Annotated[bool, Parameter(name="--open", negative="")] = False,
        config_file: ConfigFile = None,
        overwrite: Overwrite = False,
        json: Json = False,
    ) -> None:
        """Compare systems from n-grams to BERT on your own text and labels, on one page.

        Every system is pre-trained on the text for the same time. It is then evaluated on the
        labelled file in three ways: with frozen features, fine-tuned, and as the same network
        trained from random weights; simple baselines are shown beside it. Without --train, systems
        are compared only as language models and by their words. The same command continues after an
        interruption; with more systems, seeds, fractions or tests it computes only what is new.

        Args:
            corpus: Files, folders or globs of text, as for data build.
            kind: Kind of the labelled task.
            test: Labelled file that is evaluated once, at the end; unset: the metrics are those of
                dev.
            preset: python: compare five systems on the documentation of this computer's Python,
                which takes about 20 minutes on two cores and needs no corpus and no labels.
            dry_run: Show what would be done, how long it takes and how much disk space it needs.
            open_page: Open the page in a browser at the end.
        """
        _compare(
            corpus,
            config,
            None if files is None and options is None else (files or TaskFilesConfig()),
            KINDS[kind].options() if options is None else options,
            reading,
            kind,
            test,
            preset,
            dry_run=dry_run,
            open_page=open_page,
            overwrite=overwrite,
            json=json,
        )

    return compare


def _compare(
    corpus: Sequence[str],
    config: CompareConfig,
    files: TaskFilesConfig | None,
    options: TaskOptions,
    reading: CorpusConfig,
    kind: str,
    test: str | None,
    preset: Literal["python"] | None,
    *,
    dry_run: bool,
    open_page: bool,
    overwrite: bool,
    json: bool,
) -> None:
    """Compare systems, and print the results."""
    if bool(corpus) == (preset is not None):
        both = ", and not both" if corpus else ""
        raise ConfigError(f"expected files of text, or --preset python{both}: {HOW}")
    if test is not None and files is None and preset is None:
        raise ConfigError(f"--test is {test}, and there is no task: pass --train FILE too")

    if preset is not None and (files is not None or test is not None):
        raise ConfigError("--preset python brings its own task: leave out --train and --test")
    if preset is not None and config.held_out != CompareConfig.held_out:
        raise ConfigError(
            "--preset python always holds out a tenth of its modules, on which its task is tested: "
            f"remove --held-out {config.held_out:g}"
        )

    from bertwright.recipes.compare import run as comparison
    from bertwright.recipes.compare.folder import PRESET, hold, refuse_other_folder
    from bertwright.recipes.compare.labelled import Task
    from bertwright.recipes.compare.presets import MADE, PYTHON, python_docs

    out = Path(config.out)
    task = None if files is None else Task(kind, files, options, test)
    request = comparison.Request(corpus, config, task, reading)
    of_preset = out / PRESET
    if dry_run:
        refuse_other_folder(out, overwrite)
        with TemporaryDirectory() as temporary:  # a plan writes nothing into the folder
            if preset is not None:
                is_made = (of_preset / MADE).is_file() and not overwrite
                request = python_docs(
                    PYTHON, config, of_preset if is_made else Path(temporary), say
                )
            plan = comparison.plan_of(request, overwrite)
        print_json(plan.as_dict()) if json else _show_plan(plan, config)
        return
    with step_bars("all") as on_step, hold(out, overwrite) as folder:
        if preset is not None:
            request = python_docs(PYTHON, config, of_preset, say, overwrite)
        results = comparison.compare(folder, request, say=say, on_step=on_step)
    print_json(results) if json else _show(results)
    page = out / "report.html"
    if open_page:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    comparison.refuse_failures(results, folder)


def _show(content: Mapping[str, Any]) -> None:
    """Print the tables, the conclusion, doubts, reasons of failures, and the path of the page."""
    from bertwright.report.comparison.rows import Results
    from bertwright.report.comparison.tables import task_table, text_table

    results, task = Results.of(content), content["task"]
    if task:
        columns, rows = task_table(results, is_short=True)
        print_table(columns, rows, f"{task['metric']} on {task['evaluated_on']} (95 % interval)")
    columns, rows = text_table(results)
    columns = [SHORT.get(name, name) for name in columns]
    heading = "Text and words (bits: a character of text/held-out.txt)"
    for start in range(1, len(columns), MOST_COLUMNS):  # with more, numbers would be wrapped
        shown = slice(start, start + MOST_COLUMNS)
        print_table(["", *columns[shown]], [[row[0], *row[shown]] for row in rows], heading)
        heading = "Text and words, further columns"
    if content["conclusion"]:
        print(content["conclusion"])
    for remark in content["remarks"]:
        print(remark)
    reasons = {(row.title, row.reason) for row in results.rows if row.failed}
    for title, reason in sorted(reasons):
        print(f"{title} failed: {reason}")
    print(f"\nThe page: {Path(content['out']) / 'report.html'}")


def _show_plan(plan: Any, config: CompareConfig) -> None:
    """Print the steps of a plan, what is left out, and the time and disk space that it needs."""
    from bertwright.recipes.compare.plan import NOT_NAMED

    rows: dict[str, list[Any]] = {}
    for step, seconds in plan.todo:
        title = next((entry.title for entry in plan.entries if entry.name == step.system), "before")
        own = rows.setdefault(title, [0, 0.0])
        own[0] += 1
        own[1] += seconds
    cells = [[name, steps, clock(seconds)] for name, (steps, seconds) in rows.items()]
    print_table(["", "steps", "at most"], cells, "To do")
    for name, reason in plan.left_out.items():
        if reason != NOT_NAMED:
            print(f"{name} is left out: {reason}")
    for warning in plan.warnings:
        print(warning)
    print(
        f"\n{len(plan.todo)} steps, at most {clock(plan.seconds)}; about "
        f"{plan.bytes_needed / 1e9:.1f} GB of disk in {shlex.quote(config.out)}"
    )
