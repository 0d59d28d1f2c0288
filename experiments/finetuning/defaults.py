"""What `bertwright finetune` gives without options, beside scikit-learn on the same vectors.

    python experiments/finetuning/defaults.py --data DATA --models word2vec=runs/word2vec \
        elmo=runs/elmo [--tasks ag-news-400 trec-6 sick conll-2003] [--seeds 5] [--out FILE]

DATA holds classification/AG-News-10k, classification/TREC-6, pairs/SICK and tagging/CoNLL-2003.
A seed draws the training rows: 400 of AG News, 4,000 of TREC-6's 5,452, 3,500 of SICK's 4,500,
3,000 sentences of CoNLL-2003, and 500 others for dev. Both sides train on the same rows and are
evaluated on the official test file (AG News: its first 2,000 rows).

- ours: `bertwright.finetune` with the files alone, then `bertwright.evaluate` on test;
- scikit-learn: StandardScaler and LogisticRegression, C of 1e-3 to 1 by 3-fold cross-validation,
  on the vectors of `embed`; of a pair [u, v, |u - v|, u * v]; of words the vectors of `embed` with
  pooling none at each word's first token (there C on the first 10,000 words).

Figures are accuracies, of CoNLL-2003 the F1 of entities; both in percent, mean and sd over seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bertwright
from bertwright.labelled.tagged.schemes import chunks

SIZES = {"ag-news-400": 400, "trec-6": 4000, "sick": 3500, "conll-2003": 3000}
"""Training rows that a seed draws."""
DEV, MOST_TEST = 500, 2000
Row = tuple[Any, ...]
"""A text, or two, or words; and a label, or tags."""


def table(path: Path, *columns: str) -> list[Row]:
    """Read chosen columns of a TSV file with a header."""
    lines = path.read_text(encoding="utf-8").splitlines()
    names = lines[0].split("\t")
    numbers = [names.index(column) for column in columns]
    return [tuple(line.split("\t")[n] for n in numbers) for line in lines[1:]]


def sentences(path: Path) -> list[Row]:
    """Read words and IOB2 tags of CoNLL-2003's files, which are IOB1."""
    found: list[Row] = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        rows = [line.split() for line in block.splitlines() if line and "-DOCSTART-" not in line]
        if not rows:
            continue
        tags = ["O"] * len(rows)
        for start, stop, kind in chunks([row[-1] for row in rows]):
            tags[start:stop] = [f"B-{kind}"] + [f"I-{kind}"] * (stop - start - 1)
        found.append(([row[0] for row in rows], tags))
    return found


def read(task: str, data: Path) -> tuple[list[Row], list[Row]]:
    """Read the training rows and the test rows of a task."""
    if task == "conll-2003":
        folder = data / "tagging/CoNLL-2003"
        return sentences(folder / "train.txt"), sentences(folder / "test.txt")
    name, columns = {
        "ag-news-400": ("classification/AG-News-10k", ("text", "label")),
        "trec-6": ("classification/TREC-6", ("text", "label")),
        "sick": ("pairs/SICK", ("sentence_A", "sentence_B", "entailment_judgment")),
    }[task]
    train, test = (table(data / name / f"{part}.tsv", *columns) for part in ("train", "test"))
    return train, test[:MOST_TEST] if task.startswith("ag") else test


def vectors(model: Any, task: str, rows: Sequence[Row]) -> np.ndarray:
    """Return the vectors that the yardstick is fitted on."""
    if task == "conll-2003":
        return word_vectors(model, [row[0] for row in rows])
    if task == "sick":
        u, v = (model.embed([row[n] for row in rows]) for n in (0, 1))
        return np.concatenate([u, v, np.abs(u - v), u * v], 1)
    found: np.ndarray = model.embed([row[0] for row in rows])
    return found


def word_vectors(model: Any, texts: Sequence[Sequence[str]]) -> np.ndarray:
    """Return the vector of each word's first token."""
    embedder = model.embedder(model.vectors.over(pooling="none"))
    tokens = embedder.embed_tokens([" ".join(words) for words in texts])
    found = []
    for words, own in zip(texts, tokens, strict=True):
        starts = {begin: row for row, (begin, end) in reversed([*enumerate(own.offsets)]) if end}
        at = 0
        for word in words:
            row = starts.get(at)
            zeros = np.zeros(own.vectors.shape[1], np.float32)
            found.append(zeros if row is None else own.vectors[row])
            at += len(word) + 1
    return np.stack(found)


def entity_f1(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    """Return the F1 of entities."""
    pairs = [({*chunks(a)}, {*chunks(b)}) for a, b in zip(gold, predicted, strict=True)]
    right = sum(len(a & b) for a, b in pairs)
    return 2 * right / max(1, sum(len(a) + len(b) for a, b in pairs))


def yardstick(model: Any, task: str, train: Sequence[Row], test: Sequence[Row]) -> float:
    """Fit scikit-learn on vectors of the training rows, and evaluate it on test."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    of_words = task == "conll-2003"
    labels = [tag for row in train for tag in row[1]] if of_words else [row[-1] for row in train]
    x = vectors(model, task, train)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    grid = {"logisticregression__C": [1e-3, 1e-2, 1e-1, 1.0]}
    some = 10_000 if of_words else len(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(pipeline, grid, cv=3, refit=False).fit(x[:some], labels[:some])
        fitted = pipeline.set_params(**search.best_params_).fit(x, labels)
    predicted = fitted.predict(vectors(model, task, test)).tolist()
    if not of_words:
        right = [guess == row[-1] for guess, row in zip(predicted, test, strict=True)]
        return statistics.fmean(right)
    tags = iter(predicted)
    by_sentence = [[next(tags) for _ in row[0]] for row in test]
    return entity_f1([row[1] for row in test], by_sentence)


def ours(
    folder: str, task: str, train: Sequence[Row], dev: Sequence[Row], test: Sequence[Row]
) -> float:
    """Fine-tune without options, and evaluate on test."""
    kind = "tagging" if task == "conll-2003" else "classification"
    with tempfile.TemporaryDirectory() as out:
        run = bertwright.finetune(
            kind, model=folder, train=train, dev=dev, out=f"{out}/run", progress=False
        )
        scores = bertwright.evaluate(run.folder, test, intervals=False, progress=False).metrics
    return scores["f1" if kind == "tagging" else "accuracy"]


def summary(scores: Sequence[float]) -> dict[str, float]:
    """Mean and sd in percent."""
    percent = [100 * score for score in scores]
    mean, sd = statistics.fmean(percent), statistics.stdev(percent)
    return {"mean": round(mean, 2), "sd": round(sd, 2)}


def main() -> None:
    """Run all models on all tasks; what the file holds already is not run again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--tasks", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".jsonl"))
    given = parser.parse_args()
    lines = given.out.read_text("utf-8").splitlines() if given.out.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for each in given.models:
        name, _, folder = each.partition("=")
        model = bertwright.load(folder)
        for task in given.tasks:
            if any(row["model"] == name and row["task"] == task for row in rows):
                continue
            examples, test = read(task, given.data)
            sides: dict[str, list[float]] = {"ours": [], "scikit-learn": []}
            for seed in range(1, given.seeds + 1):
                order = np.random.default_rng(seed).permutation(len(examples))
                size = SIZES[task]
                train = [examples[n] for n in order[:size]]
                dev = [examples[n] for n in order[size : size + DEV]]
                sides["ours"].append(ours(folder, task, train, dev, test))
                sides["scikit-learn"].append(yardstick(model, task, train, test))
                print(name, task, seed, *(side[-1] for side in sides.values()), flush=True)
            for side, scores in sides.items():
                row = {"model": name, "task": task, "by": side, **summary(scores)}
                rows.append({**row, "scores": [round(score, 4) for score in scores]})
                print(json.dumps(rows[-1]), flush=True)
            given.out.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


if __name__ == "__main__":
    main()
