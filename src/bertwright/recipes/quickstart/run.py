"""The quickstart: a preset of the comparison (`compare/presets.py`) with a page of its own.

One BERT is pre-trained on the documentation of this computer's Python and fitted to a labelled task
with several numbers of examples. The page is that of its pre-training run, which shows what the
model has learned, with the results of the task. `run` in the folder is a link to this run, with
which the folder is a model.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertwright.config.compare import CompareConfig
from bertwright.data.doctor import check
from bertwright.progress import silent
from bertwright.recipes.compare.folder import LINK, PRESET, hold
from bertwright.recipes.compare.presets import QUICKSTART, python_docs, read_made
from bertwright.recipes.compare.run import OnStep, compare, refuse_failures
from bertwright.recipes.configure import instances_of
from bertwright.recipes.examine import read_run_config, verdict_of
from bertwright.recipes.quickstart.task import task_sentence
from bertwright.report.comparison.labelled import Labelled, labelled_section
from bertwright.report.comparison.page import write_comparison
from bertwright.report.comparison.rows import Results, read_results
from bertwright.report.pages import write_report
from bertwright.report.read import read_run
from bertwright.train.log import METRICS


def quickstart(
    out: Path,
    minutes: float,
    say: Callable[[str], None],
    on_step: OnStep = silent,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Run the quickstart, or continue it, and return its results: the content of `results.json`,
    and what the model has learned.

    Raises:
        ConfigError: the folder holds something else, or a quickstart of other minutes.
        Interrupted: a signal arrived; the same command continues.
    """
    config = CompareConfig(out=str(out), minutes=minutes)
    seconds: dict[str, float] = {}
    with hold(out, overwrite) as folder:
        made = out / PRESET
        request = python_docs(QUICKSTART, config, made, say, overwrite)
        steps = _timed(seconds, on_step, say)
        results = compare(folder, replace(request, page=write_page), say=say, on_step=steps)
        refuse_failures(results, folder)
        run = out / results["systems"][0]["run"]
        with contextlib.suppress(OSError):  # a system without links
            if not (out / LINK).is_symlink():
                (out / LINK).symlink_to(os.path.relpath(run, out), target_is_directory=True)
        for line in _data_check(run):
            say(line)
        write_page(out)
        verdict, examples = verdict_of(run), read_run(run).examples
        say(verdict.sentence)
    return {
        **results,
        "corpus": read_made(made)["corpus"],
        "verdict": verdict.sentence,
        "comparison": of_sections(examples, "charts"),
        "examples": examples,
        "report": str(out / "report.html"),
        "model": str(out / LINK),
        "command": _again(out, read_results(out)),
        "seconds": seconds,
        "next": next_commands(),
    }


def _timed(seconds: dict[str, float], on_step: OnStep, say: Callable[[str], None]) -> OnStep:
    """Return a callable that prints the name of each step and its time, which it stores."""
    present, began = "", time.monotonic()

    def step(name: str, most: float, done: float, total: float) -> None:
        nonlocal present, began
        if present:
            taken = time.monotonic() - began
            seconds[present] = seconds.get(present, 0.0) + taken
            say(f"{taken:.1f} s")
        if name:
            say(f"\n{name}")
        present, began = name, time.monotonic()
        on_step(name, most, done, total)

    return step


def write_page(folder: Path, out: Path | None = None) -> Path:
    """Write the page of a quickstart, and return its path.

    As long as there is no model, it is the page of a comparison, which has the reasons.

    Args:
        folder: the folder of the quickstart.
        out: the file to write; None: `report.html` in the folder.
    """
    results = read_results(folder)
    run = folder / results.systems[0]["run"]
    if not results.find(measure="pretrain", failed=False) or not (run / METRICS).is_file():
        return write_comparison(folder, out)
    run = folder / LINK if (folder / LINK).is_dir() else run
    return write_report(read_run(run), out or folder / "report.html", section_of(folder, results))


def section_of(folder: Path, results: Results) -> Labelled:
    """Return the section of the page about the labelled task."""
    task = results.facts["task"]
    if not task:
        return Labelled(left_out=read_made(folder / PRESET)["left_out"])
    sentence = task_sentence(task["labels"], task["examples"]["test"])
    return labelled_section(results, sentence, _again(folder, results))


def _again(folder: Path, results: Results) -> str:
    """Return the command that fine-tunes the model again on all labelled examples."""
    task = results.facts["task"]
    tuned = results.of_task("bert", "tuned")
    if tuned is None or tuned.first.rate is None:
        return ""
    return (
        f"bertwright finetune classification --model {folder} --train {task['files']['train']} "
        f"--learning-rate {tuned.first.rate:g} --out {folder}-again"
    )


def _data_check(run: Path) -> list[str]:
    """Return lines about the data of a run: the number of findings, and those to look at."""
    config = read_run_config(run)
    checkup = check(Path(config.data), instances_of(config))
    found = f"data: {checkup.errors} errors, {checkup.warnings} warnings"
    unusual = [finding for finding in checkup.findings if finding.level != "ok"]
    return [found, *(f"{each.level}: {each.message}; {each.advice}" for each in unusual)]


def of_sections(examples: Mapping[str, Any], what: str) -> list[Any]:
    """Return the charts or the masked texts of all sections of `examples.json`."""
    return [each for section in examples.get("sections", []) for each in section.get(what, [])]


def suggested_text(examples: Mapping[str, Any]) -> str:
    """Return a text with a mask for trying the model, if possible one that it predicts right."""
    blanks = of_sections(examples, "blanks")
    right = [each for each in blanks if each["top"] and each["top"][0][0] == each["truth"]]
    (text, *_) = [each["text"] for each in (right or blanks)[-1:]] or [
        "Return the [MASK] of the array."
    ]
    return str(text)


def next_commands() -> list[str]:
    """Return the commands that repeat the steps with the user's own text and labels."""
    return [
        "bertwright tokenizer train corpus/ --vocab-size 16384 --out tokenizer",
        "bertwright data build corpus/ --tokenizer tokenizer --out shards",
        "bertwright pretrain --config half-hour --data shards --out runs/mine",
        "bertwright finetune classification --model runs/mine --train labelled.tsv --out runs/task",
        "bertwright compare corpus/ --train labelled.tsv --out runs/ladder",
    ]
