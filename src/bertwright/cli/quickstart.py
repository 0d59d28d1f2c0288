"""`bertwright quickstart`: run the whole pipeline in a few minutes on text of this computer."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bertwright.cli.options import Json, Overwrite
from bertwright.cli.output import print_json, print_table
from bertwright.console import say, step_bars
from bertwright.errors import ConfigError


def quickstart(
    *,
    minutes: float = 5.0,
    out: Path = Path("runs/quickstart"),
    overwrite: Overwrite = False,
    open_page: Annotated[bool, Parameter(name="--open", negative="")] = False,
    json: Json = False,
) -> None:
    """Pre-train a small BERT on the English documentation that comes with Python.

    The corpus is the documentation of Python and of the packages installed beside it; a tenth of
    the modules is held out. Nothing is downloaded. The result is a tokenizer, shards, a model, the
    model fine-tuned to classify passages by package, and a page that compares them with simple
    baselines on held-out text. The same command continues after an interruption.

    Args:
        minutes: Minutes of pre-training; the other steps take about four minutes.
        out: Folder to write everything to.
        open_page: Open the page in a browser at the end.
    """
    if not 0 < minutes < 1e5:
        raise ConfigError(f"--minutes is {minutes}; expected more than 0 and less than 100,000")
    from bertwright.recipes.quickstart.run import quickstart as run_quickstart

    with step_bars("all") as on_step:
        results = run_quickstart(out, minutes, say, on_step, overwrite)
    print_json(results) if json else print_end(results)
    if open_page:
        import webbrowser

        webbrowser.open(Path(results["report"]).resolve().as_uri())


def print_end(results: Mapping[str, Any]) -> None:
    """Print the results, examples, and the commands to run next."""
    from bertwright.recipes.quickstart.run import of_sections, suggested_text

    percent: Callable[[float], str] = "{:.1%}".format
    print()
    for chart in results["comparison"]:
        rows = [(name, percent(value)) for name, value in chart["figures"].items()]
        print_table([f"{chart['name']}: {chart['note']}", ""], rows)
    for blank in of_sections(results["examples"], "blanks"):
        guesses = ", ".join(f"{token} {percent(p)}" for token, p in blank["top"])
        print(f"  {blank['text']}\n    {guesses}   (true: {blank['truth']}; {blank['source']})")
    print()
    _print_task(results)
    print(f"The page with curves and examples: {results['report']}")
    folder = results["out"]
    if results["examples"].get("verdict", {}).get("answer") == "no":
        print(
            "\nThe model has learned nothing yet. Train it longer, or beside less other work:\n\n"
            f"    bertwright quickstart --minutes 20 --out {folder} --overwrite"
        )
    print("\nTry the model, in the shell or in a browser (http://127.0.0.1:8080/):\n")
    text = suggested_text(results["examples"])
    print(f"    bertwright fill --model {folder} {shlex.quote(text)}")
    print(f"    bertwright serve --model {folder}")
    if results["command"]:
        print("\nFine-tune it again, on the labelled files made here:\n")
        print(f"    {results['command']}")
    print("\nThe same for your own text in corpus/, and your own labels in labelled.tsv:\n")
    *alone, every = results["next"]
    for command in alone:
        print(f"    {command}")
    print("\nWhich system pays for them, from n-grams to BERT? All of them on one page:\n")
    print(f"    {every}")


def _print_task(content: Mapping[str, Any]) -> None:
    """Print the accuracy by number of labelled examples, if it was measured."""
    if content["task"] is None:
        return
    from bertwright.report.comparison.labelled import labelled_section
    from bertwright.report.comparison.rows import Results

    found = labelled_section(Results.of(content), "", "")
    rows = [
        (each.name, *("" if value is None else f"{value:.1%}" for value in each.accuracy))
        for each in found.methods
    ]
    sizes = [f"{size:,} labelled" for size in found.sizes]
    print_table(["Which package is it about: accuracy", *sizes], rows)
    print(f"{found.best_sentence}\n")
