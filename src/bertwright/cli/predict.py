"""`bertwright predict`: one JSON line per input, for files of any size."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from bertwright.atomic import atomic_file, refuse_existing
from bertwright.cli.bars import bar
from bertwright.cli.options import (
    EVERY_KEY,
    BadRows,
    Device,
    FileForm,
    FineTuned,
    Json,
    NullThreshold,
    Overwrite,
    Precision,
    SecondColumn,
    TaskName,
    TextColumn,
)
from bertwright.cli.output import print_json, say
from bertwright.config.generation import GenerationConfig
from bertwright.errors import ConfigError


def predict(
    *,
    model: FineTuned,
    input: str,
    out: str,
    task: TaskName = None,
    text: TextColumn = None,
    text2: SecondColumn = None,
    format: FileForm = None,
    bad_rows: BadRows = "refuse",
    null_threshold: NullThreshold = None,
    generation: Annotated[GenerationConfig | None, EVERY_KEY] = None,
    precision: Precision = "auto",
    device: Device = "auto",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Predict with a fine-tuned model: one JSON line per input, in order.

    A JSON line has line (of the input in its file) and the prediction of the task: label and
    scores; value; words, tags, entities with offsets; answer with start, end and alternatives;
    choice; text. The file appears when all is done, or not at all.

    Args:
        input: File of inputs, labelled or not: plain text with one per line (a pair: tab between),
            or as for finetune; - for standard input.
        out: File to write, one JSON object per line; - for standard output.
    """
    if out != "-":
        refuse_existing(Path(out), overwrite)
    elif json:
        raise ConfigError("--json prints a summary on standard output; give --out a file then")

    from bertwright.inference.model import load
    from bertwright.labelled.columns import Columns
    from bertwright.labelled.source import refuse_missing
    from bertwright.recipes.predict import predict_file

    refuse_missing(input)
    loaded = load(model, device=device)
    loaded.task_name(task)
    target = nullcontext(sys.stdout) if out == "-" else atomic_file(Path(out), overwrite)
    with target as file, bar("Predicting", "inputs") as on_progress:
        report = predict_file(
            loaded,
            input,
            file.write,
            task,
            Columns(text, text2),
            form=format,
            bad_rows=bad_rows,
            null_threshold=null_threshold,
            precision=precision,
            on_progress=on_progress,
            generation=generation,
        )
    if json:
        print_json({"out": out, **asdict(report)})
    for warning in report.warnings:
        say(f"warning: {warning}")
    if report.in_windows:
        say(f"inputs longer than a window, read in several: {report.in_windows:,}")
    if report.cut:
        say(f"inputs not read to their end: {report.cut:,} ({report.tokens_cut:,} tokens)")
    say(f"inputs predicted: {report.examples:,} ({report.format})")
