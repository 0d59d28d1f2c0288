"""`bertwright predict`: one JSON line an input, for files of any size."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bertwright.cli.bars import bar
from bertwright.cli.options import Json, Overwrite
from bertwright.cli.output import print_json, say
from bertwright.errors import ConfigError


def predict(
    *,
    model: Annotated[str, Parameter(help="A run of finetune, or a folder of transformers.")],
    input: Annotated[
        str,
        Parameter(
            help="File of inputs, labelled or not: plain text with one a line (a pair with a tab "
            "between), or as finetune takes them; - for standard input.",
            allow_leading_hyphen=True,
        ),
    ],
    out: Annotated[
        str,
        Parameter(
            help="File to write, a JSON object a line; - for standard output.",
            allow_leading_hyphen=True,
        ),
    ],
    task: Annotated[
        str | None, Parameter(help="Name of the task, where the model has several.")
    ] = None,
    text: Annotated[str | None, Parameter(help="Column of the text; unset: found.")] = None,
    text2: Annotated[str | None, Parameter(help="Column of the second text; unset: found.")] = None,
    bad_rows: Annotated[
        Literal["refuse", "skip"],
        Parameter(help="What to do with a row that cannot be read: stop, or count it and go on."),
    ] = "refuse",
    precision: Annotated[
        Literal["auto", "bf16", "fp32"],
        Parameter(help="Of matrix products; auto measures whether bf16 is faster here."),
    ] = "auto",
    device: Annotated[
        Literal["auto", "cpu", "cuda"], Parameter(help="auto takes the GPU if there is one.")
    ] = "auto",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Predict: one JSON line an input, in order.

    A line has line (where the input stands in its file) and what the task says: label and scores;
    value; words, tags, entities with offsets; answer with start, end and the runners-up; choice.
    The file appears when all is done, or not at all.
    """
    from bertwright.atomic import atomic_file, refuse_existing

    if out != "-":
        refuse_existing(Path(out), overwrite)
    elif json:
        raise ConfigError("--json tells on standard output what was met; give --out a file then")

    from bertwright.inference.model import load
    from bertwright.recipes.predicting import predict_file
    from bertwright.tasks.columns import Columns

    loaded = load(model, device=None if device == "auto" else device)
    loaded.task_name(task)
    target = nullcontext(sys.stdout) if out == "-" else atomic_file(Path(out), overwrite)
    with target as file, bar("Predicting", "inputs") as on_progress:
        report = predict_file(
            loaded,
            input,
            file.write,
            task,
            Columns(text, text2),
            bad_rows=bad_rows,
            precision=precision,
            on_progress=on_progress,
        )
    if json:
        print_json({"out": out, **asdict(report)})
    for warning in report.warnings:
        say(f"warning: {warning}")
    if report.in_windows:
        say(f"inputs longer than a window, read in several: {report.in_windows:,}")
    if report.cut:
        say(f"inputs that fit no window even so: {report.cut:,} ({report.tokens_cut:,} tokens cut)")
    say(f"inputs predicted: {report.examples:,} ({report.format})")
