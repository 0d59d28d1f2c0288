"""Evaluate the vectors of any model on pairs of texts that are scored, labelled or belong together.

A model with a similarity task is evaluated by its task (`predictions.py`), which gives the same
metrics; this file is for models that were not fine-tuned for similarity.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from bertwright.arrays import Float32s
from bertwright.config.task import Form
from bertwright.inference.files.predictions import evaluated
from bertwright.inference.model import Model
from bertwright.inference.vectors.embed import normalized, truncation
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import SimilarityExample
from bertwright.labelled.file import ReadOptions
from bertwright.labelled.read import read_examples
from bertwright.labelled.similarities import PAIRS
from bertwright.progress import OnProgress, silent
from bertwright.rows.bad_rows import BadRows
from bertwright.rows.read import MemoryRows
from bertwright.tasks.predictions import SimilarityPrediction
from bertwright.tasks.similarity.kind import SimilarityKind, compare
from bertwright.tasks.similarity.options import SimilarityTask


def evaluate_vectors(
    model: Model,
    path: str | MemoryRows,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    *,
    form: Form | None = None,
    main: str | None = None,
    label_map: Mapping[str, str] | None = None,
    bad_rows: BadRows = "refuse",
    intervals: bool = True,
    on_progress: OnProgress = silent,
) -> dict[str, Any]:
    """Evaluate the vectors that `embed` returns on a file of pairs; the arguments are those of
    `evaluate_file`.

    Raises:
        DataError: the file has a bad row; the message names the file and line.
        ConfigError: there is no such metric, or the model has no vectors.
    """
    options = ReadOptions(format=form, label_map=label_map or {}, bad_rows=bad_rows)
    read = read_examples(path, PAIRS, columns, options)
    read = replace(read, examples=read.of_part("test", "dev"))
    examples = cast(Sequence[SimilarityExample], read.examples)
    task = SimilarityKind().evaluated(SimilarityTask(), examples)
    predictions = predict_pairs(model, task, examples, on_progress)
    found = evaluated(task, read, path, predictions, intervals=intervals, main=main)
    return {"model": model.runner.name, "task": "similarity", **found}


def predict_pairs(
    model: Model, task: SimilarityTask, examples: Sequence[Any], on_progress: OnProgress = silent
) -> list[SimilarityPrediction]:
    """Return the similarity of each pair by the vectors that `embed` returns.

    Args:
        model: the model, whose prompts for queries and documents are used.
        task: a similarity task, whose form decides how pairs are evaluated.
        examples: the pairs.
        on_progress: called with the number of tokens done.
    """
    prompts = SimilarityTask(prompts=tuple(model.prompts.items()))
    embedder = model.embedder()
    first = list(dict.fromkeys(each.text for each in examples))
    others = list(dict.fromkeys(t for each in examples for t in (each.text2, *each.negatives)))
    of_first, of_others = (
        dict(zip(texts, normalized(embedder.embed(texts, done, prompt=prompt)), strict=True))
        for texts, prompt, done in (
            (first, prompts.first_prompt or None, silent),
            (others, prompts.second_prompt or None, on_progress),
        )
    )
    if texts := embedder.truncated:
        warnings.warn(truncation(embedder.longest, texts, embedder.tokens_truncated), stacklevel=2)
    vectors: dict[int, Float32s] = {
        row: np.stack([of_first[e.text], *(of_others[t] for t in (e.text2, *e.negatives))])
        for row, e in enumerate(examples)
    }
    by_row = dict(compare(task, examples, vectors))
    return [by_row[row] for row in range(len(examples))]
