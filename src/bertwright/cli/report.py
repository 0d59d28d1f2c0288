"""`bertwright report`: the page of a run, one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertwright.cli.bars import bar
from bertwright.cli.options import Json
from bertwright.cli.output import print_json, say
from bertwright.errors import BertwrightError


def report(run: Path, *, out: Path | None = None, json: Json = False) -> None:
    """Write the HTML page of a run: curves, metrics, configuration and examples.

    For a fine-tuned run: comparison with the baselines, seeds, errors and lengths. For glue: a
    table of its tasks, with links to their pages, which are written too. It also works during the
    run.

    Args:
        run: Folder of a run, of a quickstart or of glue.
        out: File to write; unset: report.html in the run's folder.
    """
    from bertwright.report.glue import is_glue, write_glue_report
    from bertwright.report.pages import write_report
    from bertwright.report.read import read_run

    if is_glue(run):
        path, whole = write_glue_report(run, out)
        scores = {name: task.get("score") for name, task in whole.get("tasks", {}).items()}
        facts = {"average": whole.get("average"), "tasks": scores}
        print_json({"report": path, **facts}) if json else print(path)
        return
    found = read_run(run)
    if not found.results:
        from bertwright.recipes.examine import write_findings

        with bar("Reading the data and running the model", "tokens") as on_progress:
            try:
                write_findings(found.folder, on_progress=on_progress)
            except BertwrightError as error:  # the page is about the run
                say(f"without examples: {error}")
        found = read_run(run)
    path = write_report(found, out or run / "report.html")  # of a quickstart: at its top
    if not json:
        print(path)
    elif found.results:
        tasks = {name: _told(each) for name, each in (found.results.get("tasks") or {}).items()}
        print_json({"report": path, **({"tasks": tasks} if tasks else _told(found.results))})
    else:
        last = {name: found.split(name)[-1] for name in ("train", "dev") if found.split(name)}
        print_json({"report": path, **last})


def _told(results: Mapping[str, Any]) -> dict[str, Any]:
    """The main figures of a task."""
    from bertwright.report.verdict import verdict

    main = results.get("main")
    summary = (results.get("summary") or {}).get(main)
    answer, sentence = verdict(results)
    return {"main": main, "summary": summary, "worth_it": answer, "verdict": sentence}
