"""Linear probes: what the frozen vectors of a pre-trained model tell of three tasks.

A ridge regression reads the mean of the tokens of a layer: of a text for SST-2 and TREC-6, and of a
pair |u - v|, u * v and their cosine for STS-B. It takes half a minute where fine-tuning takes ten,
and its figures vary less, so it is for choosing between recipes, not for records.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.preprocessing import StandardScaler
from speedrun.tasks import MOST_HELD_OUT, TASKS

from bertwright.arrays import Float64s
from bertwright.inference.model import Model, load
from bertwright.labelled.columns import make_columns
from bertwright.labelled.read import read_examples
from bertwright.recipes.finetune.setup import draw
from bertwright.tasks.catalogue import kind_of

STRENGTHS = np.logspace(0, 5, 11)
"""The strengths of regularization, of which leave-one-out error chooses one."""


def probe(
    folder: Path, data: Path, tasks: Sequence[str], labels: int, seed: int
) -> dict[str, float]:
    """Return the scores of the embeddings and of the last layer of a model, in percent.

    Args:
        folder: the run.
        data: the folder of the tasks.
        tasks: the names of tasks of texts, or of pairs with a number.
        labels: the number of labelled examples, drawn by the seed.
    """
    model = load(folder)
    scores: dict[str, float] = {}
    for name in tasks:
        train = _examples(name, data / TASKS[name].train, labels, seed)
        held_out = _examples(name, data / TASKS[name].held_out, MOST_HELD_OUT, seed)
        for layer, place in ((0, "embeddings"), (model.spec.depth, "last")):
            score = _correlation if TASKS[name].kind == "regression" else _accuracy
            scores[f"{name}, {place}"] = round(100 * score(model, train, held_out, layer), 1)
    return scores


def _examples(name: str, path: Path, most: int, seed: int) -> list[Any]:
    task = TASKS[name]
    columns = make_columns(task.text, None, task.label)
    return draw(
        [*read_examples(str(path), kind_of(task.kind).reader, columns).examples], most, seed
    )


def _accuracy(model: Model, train: Sequence[Any], held_out: Sequence[Any], layer: int) -> float:
    x, y = (_means(model, [each.text for each in part], layer) for part in (train, held_out))
    scale = StandardScaler().fit(x)
    fitted = RidgeClassifierCV(STRENGTHS).fit(scale.transform(x), [each.label for each in train])
    return float(fitted.score(scale.transform(y), [each.label for each in held_out]))


def _correlation(model: Model, train: Sequence[Any], held_out: Sequence[Any], layer: int) -> float:
    x, y = (_compared(model, part, layer) for part in (train, held_out))
    scale = StandardScaler().fit(x)
    fitted = RidgeCV(STRENGTHS).fit(scale.transform(x), [each.label for each in train])
    predicted = fitted.predict(scale.transform(y))
    return float(np.corrcoef(predicted, [each.label for each in held_out])[0, 1])


def _means(model: Model, texts: Sequence[str], layer: int) -> Float64s:
    vectors: Float64s = model.embed(texts, layers=layer, pooling="mean").astype(np.float64)
    return vectors


def _compared(model: Model, pairs: Sequence[Any], layer: int) -> Float64s:
    u = _means(model, [each.text for each in pairs], layer)
    v = _means(model, [each.text2 for each in pairs], layer)
    mean = np.concatenate([u, v]).mean(0)
    u, v = u - mean, v - mean
    lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    cosine = (u * v).sum(1) / np.maximum(lengths, 1e-12)
    return np.concatenate([np.abs(u - v), u * v, cosine[:, None]], 1)
