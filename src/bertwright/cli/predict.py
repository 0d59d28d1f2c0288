"""`bertwright predict`: predict one row per input, for files of any size."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from bertwright.atomic import atomic_file, refuse_existing
from bertwright.cli.options import EVERY_KEY, FileOptions, HeadOptions, Json, Overwrite, unescaped
from bertwright.cli.output import JSON_LINES, print_json, refuse_suffix
from bertwright.console import bar, say
from bertwright.errors import ConfigError


def predict(
    *texts: str,
    model: str,
    input: str | None = None,
    out: str = "-",
    exported: Path | None = None,
    file: Annotated[FileOptions, EVERY_KEY] = FileOptions(),
    head: Annotated[HeadOptions, EVERY_KEY] = HeadOptions(),
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Predict with a fine-tuned model: one row per input, in order.

    A row has the input, its line in the file, and the prediction of the task: label and scores;
    value; words, tags, entities with offsets; answer with start, end and alternatives; choice;
    text. Rows are JSON lines, or a table if --out ends in .csv or .tsv. The file appears only when
    all rows are done.

    Args:
        texts: Texts to predict, in place of --input. The parts of a pair, a question and its
            passage, or a text and its choices are separated by tabs.
        model: A run of finetune, or a Hugging Face folder with a task head.
        input: File of inputs, labelled or not: plain text with one input per line (the texts of a
            pair separated by a tab), or a format of finetune; - for standard input.
        exported: Folder that bertwright export --task encoder wrote of this model; its graph
            computes the layers, with ONNX Runtime or OpenVINO on the CPU.
        out: File to write: .csv or .tsv for a table, any other name for JSON lines; - for JSON
            lines on standard output.
    """
    from bertwright.inference.files.prediction_rows import form_of

    if bool(texts) == (input is not None):
        raise ConfigError("expected texts or --input FILE, and not both")
    rows = form_of(out)
    if out != "-":
        refuse_suffix(Path(out), *JSON_LINES, ".csv", ".tsv")
        refuse_existing(Path(out), overwrite)
    elif json:
        raise ConfigError("--json prints a summary on standard output; give --out a file then")

    from bertwright.checkpoint.missing import refuse_missing_model
    from bertwright.labelled.columns import Columns
    from bertwright.labelled.folders import refuse_missing
    from bertwright.labelled.look import look_for_columns

    if input is not None:
        refuse_missing(input)
        look_for_columns(input, Columns(file.text, file.text2), file.format)
    refuse_missing_model(model)
    from bertwright.inference.files.predictions import predict_file, rows_of_texts
    from bertwright.inference.model import load

    loaded = load(model, device=head.device, exported=exported)
    task = loaded.tasks[loaded.task_name(head.task)]
    target = nullcontext(sys.stdout) if out == "-" else atomic_file(Path(out), overwrite)
    with target as written, bar("Predicting", "inputs") as on_progress:
        report = predict_file(
            loaded,
            rows_of_texts(task, texts) if input is None else input,
            written.write,
            head.task,
            Columns(file.text, file.text2),
            form=file.format,
            bad_rows=file.bad_rows,
            null_threshold=head.null_threshold,
            precision=head.precision,
            on_progress=on_progress,
            generation=head.generation and unescaped(head.generation),
            rows=rows,
        )
    if json:
        print_json({"out": out, **asdict(report)})
    for warning in report.warnings:
        say(f"warning: {warning}")
    if report.in_windows:
        say(f"inputs longer than a window, read in several: {report.in_windows:,}")
    if report.cut:
        say(f"inputs not read to their end: {report.cut:,} ({report.tokens_cut:,} tokens)")
    if input is not None:
        say(f"inputs predicted: {report.examples:,} ({report.format})")
