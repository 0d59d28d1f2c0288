"""`bertwright evaluate`: evaluate a fine-tuned model, or predictions, on a labelled file."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bertwright.cli.evaluations import EvaluatedFile, ResultOptions, show_evaluation
from bertwright.cli.options import EVERY_KEY, HeadOptions, KindOfTask, unescaped
from bertwright.config.finetune import label_map
from bertwright.config.task import BleuTokenize
from bertwright.console import bar
from bertwright.errors import ConfigError

if TYPE_CHECKING:
    from bertwright.labelled.columns import Columns


def evaluate(
    *,
    model: str | None = None,
    predictions: Path | None = None,
    kind: KindOfTask | None = None,
    bleu_tokenize: BleuTokenize | None = None,
    file: Annotated[EvaluatedFile, EVERY_KEY],
    head: Annotated[HeadOptions, EVERY_KEY] = HeadOptions(),
    result: Annotated[ResultOptions, EVERY_KEY] = ResultOptions(),
) -> None:
    """Evaluate a fine-tuned model, or a file of predictions, on a labelled file: metrics,
    confidence intervals, and a table of labels.

    Labels, windows, null threshold and columns are those of training. A label that was not in the
    training file is an error that names its line.

    Args:
        model: A run of finetune, or a Hugging Face folder with a task head.
        predictions: In place of --model: file of predictions made by any program (SQuAD's answers,
            CoNLL columns, a table with a column of predictions, or the output of predict); needs
            --kind.
        kind: With --predictions: the kind of task.
        bleu_tokenize: Generation: sacreBLEU's tokenizer; unset: that of training, or with
            --predictions the one for the script of the text.
    """
    _refuse_unlike(model, predictions, kind, file, head)
    result.refuse_out()
    from bertwright.checkpoint.missing import refuse_missing_model

    if model is not None:
        refuse_missing_model(model)
    columns = file.columns()
    if model is not None:
        found = _of_model(model, file, columns, head, result.intervals, bleu_tokenize)
    else:
        found = _of_predictions(
            str(predictions), str(kind), file, columns, result.intervals, bleu_tokenize
        )
    show_evaluation(found, result)


def _of_model(
    model: str,
    file: EvaluatedFile,
    columns: Columns,
    head: HeadOptions,
    intervals: bool,
    bleu_tokenize: BleuTokenize | None,
) -> dict[str, Any]:
    """Return the evaluation of a model."""
    from bertwright.inference.files.predictions import evaluate_file
    from bertwright.inference.model import load
    from bertwright.recipes.finetune.training_file import compare_with_training

    loaded = load(model, device=head.device)
    with bar("Predicting", "tokens") as on_progress:
        return evaluate_file(
            loaded,
            file.data,
            head.task,
            columns,
            main=file.metric,
            form=file.format,
            label_map=label_map(file.label_map),
            bad_rows=file.bad_rows,
            null_threshold=head.null_threshold,
            intervals=intervals,
            precision=head.precision,
            on_progress=on_progress,
            generation=head.generation and unescaped(head.generation),
            bleu_tokenize=bleu_tokenize,
            compare=partial(compare_with_training, loaded, file.data, file.metric),
        )


def _of_predictions(
    predictions: str,
    kind: str,
    file: EvaluatedFile,
    columns: Columns,
    intervals: bool,
    bleu_tokenize: BleuTokenize | None,
) -> dict[str, Any]:
    """Return the evaluation of a file of predictions."""
    from bertwright.inference.files.scored_predictions import evaluate_predictions
    from bertwright.labelled.file import ReadOptions

    reading = ReadOptions(
        format=file.format,
        label_map=label_map(file.label_map),
        bad_rows=file.bad_rows,
        keep_wrong_answers=True,
    )
    return evaluate_predictions(
        predictions,
        file.data,
        kind,
        columns,
        reading,
        main=file.metric,
        intervals=intervals,
        bleu_tokenize=bleu_tokenize,
    )


def _refuse_unlike(
    model: str | None,
    predictions: Path | None,
    kind: str | None,
    file: EvaluatedFile,
    head: HeadOptions,
) -> None:
    """Raise ConfigError if neither a model nor predictions are given, or both, or an option that
    belongs to the other, or what another verb evaluates.
    """
    from bertwright.inference.files.beir import is_search

    if model is not None and kind == "similarity" and predictions is None:
        raise ConfigError(
            "--kind is for --predictions; to evaluate the vectors of a model: bertwright "
            f"evaluate-vectors --model {model} --data {file.data}"
        )
    if (model is None) == (predictions is None) or (kind is None) != (predictions is None):
        raise ConfigError("expected --model FOLDER, or --predictions FILE with --kind KIND")
    if model is not None and is_search(file.data):
        raise ConfigError(
            f"{file.data} is a data set of retrieval; to evaluate vectors on it: bertwright "
            f"evaluate-search --model {model} --data {file.data}"
        )
    for each in fields(head) if predictions is not None else ():
        if getattr(head, each.name) != getattr(HeadOptions(), each.name):
            option = "--" + each.name.replace("_", "-")
            option = "option of generation" if each.name == "generation" else option
            raise ConfigError(f"a file of predictions has no {option}: remove it")
