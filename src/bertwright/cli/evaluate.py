"""`bertwright evaluate`: a fine-tuned model on a labelled file."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bertwright.atomic import atomic_file, refuse_existing
from bertwright.cli.bars import bar
from bertwright.cli.options import (
    EVERY_KEY,
    FINE_TUNED,
    BadRows,
    Device,
    FileForm,
    Json,
    NullThreshold,
    Overwrite,
    Precision,
    SecondColumn,
    TaskName,
    TextColumn,
)
from bertwright.cli.output import counted, print_json, print_table, say
from bertwright.config.generation import GenerationConfig
from bertwright.config.task import Kind
from bertwright.config.values import plain
from bertwright.errors import ConfigError


def evaluate(
    *,
    model: Annotated[str | None, Parameter(help=FINE_TUNED)] = None,
    predictions: Path | None = None,
    kind: Kind | None = None,
    data: str,
    task: TaskName = None,
    text: TextColumn = None,
    text2: SecondColumn = None,
    label: str | None = None,
    format: FileForm = None,
    metric: str | None = None,
    bad_rows: BadRows = "refuse",
    bad_tags: Literal["mend", "refuse"] = "mend",
    intervals: bool = True,
    null_threshold: NullThreshold = None,
    generation: Annotated[GenerationConfig | None, EVERY_KEY] = None,
    precision: Precision = "auto",
    device: Device = "auto",
    out: Path | None = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Evaluate a fine-tuned model, or predictions of any other, on a labelled file: metrics,
    intervals, a table of labels.

    Labels, windows, threshold and columns are those of training. A label that was not in the
    training file is an error that names its line.

    Args:
        predictions: In place of --model: file of predictions made elsewhere (SQuAD's, CoNLL
            columns, GLUE's TSV, a label a line, or of predict), with --kind.
        kind: With --predictions: the kind of task.
        data: Labelled file, as for finetune, or - for standard input.
        label: Column of the label; unset: that of training, or found by its name.
        metric: Metric to print first; unset: the usual one of the kind of task.
        bad_tags: Tags that break their scheme: repair and count them, or stop.
        intervals: Compute 95 % intervals, by bootstrap.
        out: JSON file to write all metrics to, and the wrong predictions.
    """
    if (kind is None) != (predictions is None) or (model is None) == (predictions is None):
        raise ConfigError("expected --model FOLDER, or --predictions FILE with --kind KIND")
    refuse_existing(out, overwrite)

    from bertwright.labelled.columns import Columns
    from bertwright.labelled.source import refuse_missing

    refuse_missing(data)
    columns = Columns(text, text2, label)
    if predictions is not None and kind is not None:
        from bertwright.labelled.file import ReadOptions
        from bertwright.recipes.predictions import evaluate_predictions

        options = ReadOptions(
            format=format, bad_rows=bad_rows, bad_tags=bad_tags, wrong_answers="keep"
        )
        found = evaluate_predictions(
            str(predictions), data, kind, columns, options, main=metric, intervals=intervals
        )
    else:
        from bertwright.inference.model import load
        from bertwright.recipes.predict import evaluate_file

        loaded = load(model or "", device=device)
        with bar("Predicting", "tokens") as on_progress:
            found = evaluate_file(
                loaded,
                data,
                task,
                columns,
                main=metric,
                form=format,
                bad_rows=bad_rows,
                bad_tags=bad_tags,
                null_threshold=null_threshold,
                intervals=intervals,
                precision=precision,
                on_progress=on_progress,
                generation=generation,
            )
    if out is not None:
        with atomic_file(out, overwrite) as file:
            json_module.dump(plain(found), file, ensure_ascii=False, indent=1)
            file.write("\n")
    for warning in found["warnings"]:
        say(f"warning: {warning}")
    if json:
        print_json(found)
        return

    from bertwright.report.numbers import show, title
    from bertwright.report.verdict import show_interval

    rows: list[list[object]] = []
    for name, value in found["metrics"].items():
        interval = [show_interval(found, name)] if intervals else []
        rows.append([title(name), show(name, value), *interval])
    print_table(
        ["metric", "value", *(["95 % interval"] if intervals else [])],
        rows,
        f"{found['task']}: {counted(found['examples'], 'example')} of {found['data']['file']}",
    )
    if found["per_class"]:
        rows = []
        for row in found["per_class"]:
            figures = [show("f1", row[key]) for key in ("precision", "recall", "f1")]
            rows.append([row["label"], *figures, int(row["support"])])
        print_table(["label", "precision", "recall", "F1", "examples"], rows)
    if longer := found["lengths"].get("in_windows"):
        say(f"examples longer than a window, read in several: {longer:,}")
