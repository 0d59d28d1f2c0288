"""`bertwright quickstart`: the whole road in some minutes, on text this machine has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bertwright.cli.bars import bar
from bertwright.cli.options import Json, Overwrite
from bertwright.cli.output import counted, print_json, print_table, say
from bertwright.errors import ConfigError, Interrupted
from bertwright.progress import OnProgress

STEPS = 7


def quickstart(
    *,
    minutes: Annotated[
        float,
        Parameter(help="Minutes of pre-training from its first step; the rest takes two or so."),
    ] = 5.0,
    out: Annotated[Path, Parameter(help="Folder for everything.")] = Path("runs/quickstart"),
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Pre-train a small BERT on the English that every Python machine holds.

    The corpus is the documentation of Python and of the packages installed beside it; a tenth of
    the modules is held out. Nothing is fetched. You get a vocabulary, shards, a model, the model
    fine-tuned to tell packages apart by their documentation, and a page that shows what they can
    do on held-out text beside the obvious baselines.
    """
    if not 0 < minutes < 1e5:
        raise ConfigError(f"--minutes is {minutes}; expected more than 0 and less than 100,000")
    from bertwright.recipes.quickstart import run as steps

    places = steps.begin(out, overwrite)
    result: dict[str, Any] = {"out": str(out)}
    seconds: dict[str, float] = {}

    with _step(1, "Gathering the documentation that this Python holds", seconds, "modules") as step:
        docs = steps.gather(places, step.on_progress)
        largest = list(docs.characters_by_package.items())[:6]
        step.tell(
            f"{docs.documents:,} modules with {docs.sentences:,} sentences, "
            f"{docs.characters / 1e6:.1f} MB of English; {docs.repeated_paragraphs:,} repeated "
            "paragraphs left out",
            "most from " + ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in largest),
        )
    result["corpus"] = docs.as_dict()

    with _step(2, f"Training a vocabulary of {steps.VOCAB_SIZE:,}", seconds, "bytes") as step:
        size = steps.learn_vocabulary(places, step.on_progress)
        step.tell(f"{size:,} WordPiece tokens, uncased, in {places.tokenizer}")

    with _step(3, "Turning the text into ids", seconds, "bytes") as step:
        counts = steps.build(places, step.on_progress)
        step.tell(f"{counts['tokens']:,} tokens in {places.shards}")
    result["data"] = counts

    with _step(4, "Examining the data", seconds, "tokens") as step:
        checkup = steps.examine(places, step.on_progress)
        troubles = [f for f in checkup.findings if f.level != "ok"]
        step.tell(
            f"{counted(len(checkup.findings), 'finding')}: {counted(checkup.errors, 'error')}, "
            f"{counted(checkup.warnings, 'warning')}",
            *(f"{f.level}: {f.message}; {f.advice}" for f in troubles),
        )

    say(f"\n5/{STEPS}  First weights, then {minutes:g} min of pre-training {steps.MODEL}")
    begin = time.monotonic()
    from bertwright.recipes.pretrain import pretrain

    config = steps.configuration(places, minutes)
    try:
        # On a busy machine, making first weights may take longer than few minutes are.
        pretrain(config, lambda line: say(f"     {line}"), counts_start=False)
    except Interrupted as stop:
        raise Interrupted(
            stop.signal_number,
            f"interrupted while pre-training; what it learned is saved in {places.run}: to go on, "
            f"bertwright pretrain --config {places.run}/config.toml --resume; to begin anew, "
            "the same command with --overwrite",
        ) from stop
    seconds["pretrain"] = time.monotonic() - begin
    few = steps.few_steps(places)
    if few is not None:
        say(f"     {counted(few, 'step')} only, too few to learn from: pass more --minutes")
    say(f"     {seconds['pretrain']:.1f} s")

    with _step(6, "Asking the model about the modules that were held out", seconds) as step:
        figures, found = _evaluate(places, config)
        steps.keep_findings(places, checkup, found)
        _write_page(places)
        step.tell(f"the page: {places.report}")
    result |= figures

    title = "Fine-tuning: which package does a passage belong to?"
    with _step(7, title, seconds, "examples") as step:
        curve = _learning_curve(places, minutes, step)
    result["learning_curve"] = curve
    result |= {"report": str(places.report), "model": str(places.run), "seconds": seconds}
    if json:
        print_json({**result, "examples": found, "next": steps.next_commands()})
        return
    _show(found)
    _show_curve(curve)
    print(f"The page with curves and examples: {places.report}")
    print("\nTry the model:\n")
    print(f'    bertwright fill --model {places.run} "Return the [MASK] of the array."')
    if "command" in curve:
        print("\nFine-tune it again, on the labelled files made here:\n")
        print(f"    {curve['command']}")
    print("\nThe same for your own text in corpus/, and your own labels in labelled.tsv:\n")
    for command in steps.next_commands():
        print(f"    {command}")


class _Step:
    """What a step says when it ends."""

    def __init__(self, on_progress: OnProgress) -> None:
        self.on_progress = on_progress
        self.lines: list[str] = []

    def tell(self, *lines: str) -> None:
        """Keep what there is to tell."""
        self.lines.extend(lines)


@contextmanager
def _step(number: int, title: str, seconds: dict[str, float], unit: str = "") -> Iterator[_Step]:
    """Say what is done, draw a bar while it is, and say what came of it and how long it took."""
    say(f"\n{number}/{STEPS}  {title}")
    begin = time.monotonic()
    with bar("     done", unit) as on_progress:
        step = _Step(on_progress)
        yield step
    taken = time.monotonic() - begin
    names = ("corpus", "tokenizer", "data", "check", "pretrain", "evaluate", "finetune")
    seconds[names[number - 1]] = taken
    for line in step.lines:
        say(f"     {line}")
    say(f"     {taken:.1f} s")


def _evaluate(places: Any, config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures, and what the page shows."""
    from bertwright.inference.model import load
    from bertwright.recipes.quickstart import evaluation
    from bertwright.recipes.quickstart import examples as texts

    model = load(places.run)
    masked = evaluation.masked_tokens(model, config)
    pairs = evaluation.next_sentences(model, config)
    sentences, seen = evaluation.held_out(places, config)
    near, nearest = evaluation.nearest_sentences(model, sentences)
    found = {
        "baselines": {
            "masked_lm.accuracy": masked["most_frequent_token"],
            "next_sentence.accuracy": pairs["more_frequent_answer"],
        },
        "comparison": texts.comparison(masked, pairs, near, seen),
        "blanks": texts.blanks(model, sentences),
        "pairs": texts.pairs(model, sentences),
        "neighbours": texts.neighbours(nearest),
        "note": texts.NOTE,
    }
    masked["sentences_seen_in_training"] = seen
    figures = {"masked_tokens": masked, "next_sentences": pairs, "nearest_sentences": near}
    return figures, found


def _learning_curve(places: Any, minutes: float, step: _Step) -> dict[str, Any]:
    """The figures by number of labelled examples, and the page with them."""
    from bertwright.recipes.quickstart.curve import learning_curve
    from bertwright.report.labelled_curve import best_sentence, task_sentence

    curve = learning_curve(places, minutes, step.on_progress)
    _write_page(places)
    if "left_out" in curve:
        step.tell(f"left out: {curve['left_out']}")
    else:
        step.tell(task_sentence(curve), best_sentence(curve))
        step.tell(f"labelled files in {places.task}, the fine-tuned model in {places.finetuned}")
    return curve


def _write_page(places: Any) -> None:
    """The page of the run, at the top of the quickstart's folder."""
    from bertwright.report.run_page import read_run, write_report

    write_report(read_run(places.run), places.report)


def _show(found: Mapping[str, Any]) -> None:
    """Figures and examples, on standard output."""
    percent: Callable[[float], str] = "{:.1%}".format
    print()
    for row in found["comparison"]:
        rows = [(name, percent(value)) for name, value in row["figures"].items()]
        print_table([f"{row['task']}: {row['measure']}", ""], rows)
    for blank in found["blanks"][:5]:
        guesses = ", ".join(f"{g['token']} {percent(g['probability'])}" for g in blank["top"])
        print(f"  {blank['text']}\n    {guesses}   (in truth: {blank['truth']}; {blank['module']})")
    print()


def _show_curve(curve: Mapping[str, Any]) -> None:
    """Accuracy by number of labelled examples, on standard output."""
    if "left_out" in curve:
        return
    from bertwright.report.labelled_curve import method_title

    rows = [
        (method_title(method["name"]), *(f"{value:.1%}" for value in method["accuracy"]))
        for method in curve["methods"]
    ]
    sizes = [f"{size:,} labelled" for size in curve["sizes"]]
    print_table(["Which package is it about: share right", *sizes], rows)
    print()
