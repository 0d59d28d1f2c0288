"""`bertwright evaluate`: evaluate a fine-tuned model on a labelled file."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bertwright.atomic import atomic_file, refuse_existing
from bertwright.cli.options import EVERY_KEY, KindOfTask, LabelledOptions, unescaped
from bertwright.cli.output import JSON, counted, print_json, print_table, refuse_suffix
from bertwright.config.finetune import label_map as read_label_map
from bertwright.config.task import BleuTokenize
from bertwright.config.values import plain
from bertwright.console import bar, say
from bertwright.errors import ConfigError

ALWAYS_READ = ("device", "overwrite", "json")
OF_FILES = ("text", "text2", "format", "bad_rows")
"""The options that say how to read a labelled file."""


def evaluate(
    *,
    model: str | None = None,
    predictions: Path | None = None,
    kind: KindOfTask | None = None,
    data: str,
    label: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    label_map: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    metric: str | None = None,
    intervals: bool = True,
    bleu_tokenize: BleuTokenize | None = None,
    out: Path | None = None,
    options: Annotated[LabelledOptions, EVERY_KEY] = LabelledOptions(),
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
        kind: With --predictions: the kind of task. With --model: similarity, to compare pairs by
            the vectors of any model.
        data: Labelled file, as for finetune, or - for standard input. For any model that embeds
            texts also a retrieval data set in BEIR's format (a folder with corpus.jsonl,
            queries.jsonl and qrels/test.tsv), or one of its qrels files.
        label: Column of the label; unset: that of training, or found by its name. For a model with
            several labels per text: a column for each class, or the names of the classes of a list
            of 0 and 1.
        label_map: Rename labels while reading, as 0=bad 1=good.
        metric: Metric to print first; unset: the main metric of the kind of task.
        intervals: Compute 95 % confidence intervals by bootstrap.
        bleu_tokenize: Generation: sacreBLEU's tokenizer; unset: that of training, or with
            --predictions the one for the script of the text.
        out: JSON file to write all metrics and the wrong predictions to.
    """
    of_vectors = kind == "similarity" and model is not None
    kind_is_right = of_vectors or (kind is None) == (predictions is None)
    if not kind_is_right or (model is None) == (predictions is None):
        raise ConfigError(
            "expected --model FOLDER, or --predictions FILE with --kind KIND; for the vectors of "
            "any model: --model FOLDER --kind similarity"
        )
    refuse_suffix(out, *JSON)
    refuse_existing(out, options.overwrite)
    from bertwright.checkpoint.missing import refuse_missing_model
    from bertwright.labelled.columns import make_columns
    from bertwright.labelled.folders import refuse_missing
    from bertwright.labelled.look import look_for_columns

    if not Path(data).is_dir():
        refuse_missing(data)
    if model is not None:
        refuse_missing_model(model)
    columns = make_columns(options.text, options.text2, label)
    look_for_columns(data, columns, options.format)
    if model is not None and Path(data).exists():
        from bertwright.inference.files.retrieval import find_judgements

        judgements = find_judgements(data)
        if judgements is not None:
            of_labels = {
                "label": label,
                "label_map": label_map,
                "metric": metric,
                "bleu_tokenize": bleu_tokenize,
            }
            _refuse_ignored(f"a search ({data})", options, (), of_labels)
            _evaluate_search(model, judgements, intervals, out, options)
            return
    if predictions is not None:
        _refuse_ignored("a file of predictions", options, OF_FILES)
    elif of_vectors:
        _refuse_ignored("vectors of pairs", options, OF_FILES, {"bleu_tokenize": bleu_tokenize})
    other_names = read_label_map(label_map)

    refuse_missing(data)
    if predictions is not None and kind is not None:
        from bertwright.inference.files.scored_predictions import evaluate_predictions
        from bertwright.labelled.file import ReadOptions

        reading = ReadOptions(
            format=options.format,
            label_map=other_names,
            bad_rows=options.bad_rows,
            keep_wrong_answers=True,
        )
        found = evaluate_predictions(
            str(predictions),
            data,
            kind,
            columns,
            reading,
            main=metric,
            intervals=intervals,
            bleu_tokenize=bleu_tokenize,
        )
    else:
        from bertwright.inference.files.predictions import evaluate_file
        from bertwright.inference.model import load
        from bertwright.recipes.finetune.training_file import compare_with_training

        loaded = load(model or "", device=options.device)
        with bar("Predicting", "tokens") as on_progress:
            if of_vectors:
                from bertwright.inference.files.pairs import evaluate_vectors

                found = evaluate_vectors(
                    loaded,
                    data,
                    columns,
                    form=options.format,
                    main=metric,
                    label_map=other_names,
                    bad_rows=options.bad_rows,
                    intervals=intervals,
                    on_progress=on_progress,
                )
            else:
                found = evaluate_file(
                    loaded,
                    data,
                    options.task,
                    columns,
                    main=metric,
                    form=options.format,
                    label_map=other_names,
                    bad_rows=options.bad_rows,
                    null_threshold=options.null_threshold,
                    intervals=intervals,
                    precision=options.precision,
                    on_progress=on_progress,
                    generation=options.generation and unescaped(options.generation),
                    bleu_tokenize=bleu_tokenize,
                    compare=partial(compare_with_training, loaded, data, metric),
                )
    if out is not None:
        with atomic_file(out, options.overwrite) as file:
            json.dump(plain(found), file, ensure_ascii=False, indent=1)
            file.write("\n")
    say(f"{found['data']['file']}: {found['data']['format']}")
    for warning in found["warnings"]:
        say(f"warning: {warning}")
    if options.json:
        print_json(found)
        return

    _print_metrics(
        found,
        intervals,
        f"{found['task']}: {counted(found['examples'], 'example')} of {found['data']['file']}",
    )

    from bertwright.report.numbers import show, title

    for name, signature in found["signatures"].items():
        say(f"{title(name)}: {signature}")
    if found["per_class"]:
        rows = []
        for row in found["per_class"]:
            figures = [show("f1", row[key]) for key in ("precision", "recall", "f1")]
            rows.append([row["label"], *figures, int(row["support"])])
        print_table(["label", "precision", "recall", "F1", "examples"], rows)
    if longer := found["lengths"].get("in_windows"):
        say(f"examples longer than a window, read in several: {longer:,}")


def _refuse_ignored(
    evaluated: str,
    options: LabelledOptions,
    read: Collection[str],
    others: Mapping[str, object] | None = None,
) -> None:
    """Raise ConfigError if an option is given that the evaluation does not read.

    Args:
        evaluated: what is evaluated, for the error.
        options: the options that `evaluate` and `predict` share.
        read: the names of those that this evaluation reads, besides `ALWAYS_READ`.
        others: the values of further options that it does not read; empty: not given.
    """
    usual = LabelledOptions()
    given = [name for name, value in (others or {}).items() if value]
    for each in fields(options):
        is_given = getattr(options, each.name) != getattr(usual, each.name)
        if is_given and each.name not in (*ALWAYS_READ, *read):
            given.append(each.name)
    if given:
        flag = "--" + given[0].replace("_", "-")
        option = "an option of generation" if given[0] == "generation" else flag
        raise ConfigError(f"{option} came, but {evaluated} does not read it: leave it out")


def _evaluate_search(
    model: str, judgements: Path, intervals: bool, out: Path | None, options: LabelledOptions
) -> None:
    """Evaluate the vectors of a model on a retrieval task, with TF-IDF and BM25 as baselines."""
    from bertwright.inference.files.retrieval import evaluate_search
    from bertwright.inference.model import load

    embedder = load(model, device=options.device).embedder()
    for note in embedder.notes:
        say(note)
    with bar("Embedding", "tokens") as on_progress:
        found = {"model": model, **evaluate_search(embedder, judgements, intervals, on_progress)}
    if out is not None:
        with atomic_file(out, options.overwrite) as file:
            json.dump(plain(found), file, ensure_ascii=False, indent=1)
            file.write("\n")
    for warning in found["warnings"]:
        say(f"warning: {warning}")
    if options.json:
        print_json(found)
        return
    queries = "query" if found["examples"] == 1 else "queries"
    documents = counted(found["documents"], "document")
    _print_metrics(
        found,
        intervals,
        f"{found['data']['file']}: {found['examples']:,} {queries}, {documents}",
    )


def _print_metrics(found: Mapping[str, Any], intervals: bool, title: str) -> None:
    """Print a table of the metrics of an evaluation, with intervals and baselines."""
    from bertwright.report.numbers import baseline_title, show
    from bertwright.report.numbers import title as metric_title
    from bertwright.report.verdict import show_interval

    baselines = found.get("baselines", {})
    rows = [
        [
            metric_title(name),
            show(name, value),
            *([show_interval(found, name)] if intervals else []),
            *(show(name, each.get(name)) for each in baselines.values()),
        ]
        for name, value in found["metrics"].items()
    ]
    columns = ["metric", "value", *(["95 % interval"] if intervals else [])]
    print_table([*columns, *map(baseline_title, baselines)], rows, title)
