"""`bertwright quickstart`: run the whole pipeline in a few minutes on text of this computer."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bertwright.cli.options import Json, Overwrite
from bertwright.cli.output import counted, print_json, print_table
from bertwright.console import bar, say
from bertwright.errors import ConfigError, Interrupted
from bertwright.progress import OnProgress

STEPS = 7


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
    baselines on held-out text.

    Args:
        minutes: Minutes of pre-training; the other steps take about two minutes.
        out: Folder to write everything to.
        open_page: Open the page in a browser at the end.
    """
    if not 0 < minutes < 1e5:
        raise ConfigError(f"--minutes is {minutes}; expected more than 0 and less than 100,000")
    from bertwright.recipes.quickstart import run as steps

    with steps.begin(out, overwrite) as paths:
        _run(paths, minutes, out, json)
    if open_page:
        import webbrowser

        webbrowser.open(paths.report.resolve().as_uri())


def _run(paths: Any, minutes: float, out: Path, json: bool) -> None:
    """Do all steps, and print their results."""
    from bertwright.recipes.quickstart import run as steps
    from bertwright.recipes.quickstart.task import learning_curve
    from bertwright.report.curves import best_sentence, task_sentence

    seconds: dict[str, float] = {}

    title = "Collecting the documentation of Python and its packages"
    with _step("corpus", title, seconds, "modules") as (on_progress, lines):
        docs = steps.write_corpus(paths, on_progress)
        largest = list(docs.characters_by_package.items())[:6]
        lines += [
            f"{docs.documents:,} modules with {docs.sentences:,} sentences, "
            f"{docs.characters / 1e6:.1f} MB of English; {docs.repeated_paragraphs:,} repeated "
            "paragraphs left out",
            "most from " + ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in largest),
        ]
    title = f"Training a vocabulary of {steps.VOCAB_SIZE:,}"
    with _step("tokenizer", title, seconds, "bytes") as (on_progress, lines):
        size = steps.train_vocabulary(paths, on_progress)
        lines.append(f"{size:,} WordPiece tokens, uncased, in {paths.tokenizer}")
    with _step("data", "Turning the text into token ids", seconds, "bytes") as (on_progress, lines):
        counts = steps.build(paths, on_progress)
        lines.append(f"{counts['tokens']:,} tokens in {paths.shards}")
    with _step("check", "Checking the data", seconds, "tokens") as (on_progress, lines):
        checkup = steps.check_data(paths, on_progress)
        lines.append(
            f"{counted(len(checkup.findings), 'finding')}: {counted(checkup.errors, 'error')}, "
            f"{counted(checkup.warnings, 'warning')}"
        )
        troubles = [f for f in checkup.findings if f.level != "ok"]
        lines += [f"{f.level}: {f.message}; {f.advice}" for f in troubles]
    title = f"Initializing and pre-training {steps.MODEL} for {minutes:g} min"
    with _step("pretrain", title, seconds) as (_, lines):
        verdict = _pretrain(paths, steps.configuration(paths, minutes))
        lines.append(verdict.sentence)
    with _step("evaluate", "Evaluating the model on held-out modules", seconds) as (_, lines):
        from bertwright.recipes.examine import write_findings

        write_findings(paths.run, steps.document_names(paths))
        found = _write_page(paths).examples
        lines.append(f"the page: {paths.report}")
    title = "Fine-tuning: which package does a passage belong to?"
    with _step("finetune", title, seconds, "examples") as (on_progress, lines):
        curve = learning_curve(paths, minutes, on_progress)
        _write_page(paths)
        if "left_out" in curve:
            lines.append(f"left out: {curve['left_out']}")
        else:
            lines += [task_sentence(curve), best_sentence(curve)]
            lines.append(
                f"labelled files in {paths.task}, the fine-tuned model in {paths.finetuned}"
            )
    result: dict[str, Any] = {"out": str(out), "corpus": docs.as_dict(), "data": counts}
    result |= {"verdict": verdict.sentence, "comparison": _charts(found)}
    result["learning_curve"] = curve
    result |= {"report": str(paths.report), "model": str(paths.run), "seconds": seconds}
    if json:
        print_json({**result, "examples": found, "next": steps.next_commands()})
    else:
        print_end(paths, found, curve, verdict.answer != "no")


def print_end(
    paths: Any, found: Mapping[str, Any], curve: Mapping[str, Any], has_learned: bool
) -> None:
    """Print the measures, examples, and the commands to run next."""
    from bertwright.recipes.quickstart import run as steps

    folder = paths.folder
    _show(found)
    _show_curve(curve)
    print(f"The page with curves and examples: {paths.report}")
    if not has_learned:
        print(
            "\nThe model has learned nothing yet. Train it longer, or beside less other work:\n\n"
            f"    bertwright quickstart --minutes 20 --out {folder} --overwrite"
        )
    print("\nTry the model, in the shell or in a browser (http://127.0.0.1:8080/):\n")
    print(f"    bertwright fill --model {folder} {shlex.quote(steps.suggested_text(paths.run))}")
    print(f"    bertwright serve --model {folder}")
    if "command" in curve:
        print("\nFine-tune it again, on the labelled files made here:\n")
        print(f"    {curve['command']}")
    print("\nThe same for your own text in corpus/, and your own labels in labelled.tsv:\n")
    *alone, every = steps.next_commands()
    for command in alone:
        print(f"    {command}")
    print("\nWhich system pays for them, from n-grams to BERT? All of them on one page:\n")
    print(f"    {every}")


@contextmanager
def _step(
    name: str, title: str, seconds: dict[str, float], unit: str = ""
) -> Iterator[tuple[OnProgress, list[str]]]:
    """Print the title of a step, draw a bar while it runs, then print its results and its time.

    Yields the callable for progress, and a list to which the block adds the lines of its results.
    The time is stored in `seconds` under `name`.
    """
    say(f"\n{len(seconds) + 1}/{STEPS}  {title}")
    begin = time.monotonic()
    lines: list[str] = []
    with bar("     done", unit) as on_progress:
        yield on_progress, lines
    seconds[name] = time.monotonic() - begin
    for line in [*lines, f"{seconds[name]:.1f} s"]:
        say(f"     {line}")


def _pretrain(paths: Any, config: Any) -> Any:
    """Pre-train the model and return the verdict on it.

    Raises:
        Interrupted: a signal came; the message says how to continue this run and how to start the
            quickstart again.
    """
    from bertwright.recipes.examine import verdict_of
    from bertwright.recipes.pretrain import pretrain
    from bertwright.train.signals import SeveralRuns

    try:
        # On a busy computer, initialization may take longer than a short run.
        with SeveralRuns() as runs:
            pretrain(config, lambda line: say(f"     {line}"))
            runs.heed()
    except Interrupted as stop:
        raise Interrupted(
            stop.signal_number,
            f"interrupted while pre-training; its state is saved in {paths.run}: to continue, "
            f"bertwright pretrain --config {paths.run}/config.toml --resume; to start again, "
            "the same command with --overwrite",
        ) from stop
    return verdict_of(paths.run)


def _write_page(paths: Any) -> Any:
    """Write the page of the run at the top of the quickstart's folder, and return the run."""
    from bertwright.report.pages import write_report
    from bertwright.report.read import read_run

    run = read_run(paths.run)
    write_report(run, paths.report)
    return run


def _charts(found: Mapping[str, Any]) -> list[Any]:
    """Return the figures of the model beside those of the baselines."""
    return [chart for section in found["sections"] for chart in section.get("charts", [])]


def _show(found: Mapping[str, Any]) -> None:
    """Print the comparison with the baselines, and examples."""
    percent: Callable[[float], str] = "{:.1%}".format
    print()
    for chart in _charts(found):
        rows = [(name, percent(value)) for name, value in chart["figures"].items()]
        print_table([f"{chart['name']}: {chart['note']}", ""], rows)
    for section in found["sections"]:
        for blank in section.get("blanks", []):
            guesses = ", ".join(f"{token} {percent(p)}" for token, p in blank["top"])
            print(f"  {blank['text']}\n    {guesses}   (true: {blank['truth']}; {blank['source']})")
    print()


def _show_curve(curve: Mapping[str, Any]) -> None:
    """Print the accuracy by number of labelled examples, if it was measured."""
    if "left_out" in curve:
        return
    from bertwright.report.curves import method_title

    rows = [
        (method_title(method["name"]), *(f"{value:.1%}" for value in method["accuracy"]))
        for method in curve["methods"]
    ]
    sizes = [f"{size:,} labelled" for size in curve["sizes"]]
    print_table(["Which package is it about: accuracy", *sizes], rows)
    print()
