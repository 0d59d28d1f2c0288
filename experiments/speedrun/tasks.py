"""The tasks of the race, and how a pre-trained model is fine-tuned to one and scored."""

from __future__ import annotations

import json
import lzma
import shutil
import statistics
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speedrun.recipe import digest

from bertwright.checkpoint.opened import open_model
from bertwright.config import values
from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.inference.files.perplexity import minimal_pairs
from bertwright.inference.files.predictions import reading
from bertwright.inference.model import Model, load
from bertwright.inference.score import scores_texts
from bertwright.labelled.columns import make_columns
from bertwright.labelled.examples import Example
from bertwright.labelled.read import read_examples
from bertwright.progress import silent
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import TaskSpec, draw
from bertwright.tasks.catalogue import KINDS, kind_of
from bertwright.tasks.evaluate import Evaluation, evaluate
from bertwright.tasks.predict import predict
from bertwright.tasks.task_data import TaskData
from bertwright.train.hardware import choose_precision

MOST_HELD_OUT = 2000
"""The maximum number of held-out examples, drawn by the seed: AG-News and CoNLL-2003 have more."""
BASELINES = ("tfidf", "tfidf_ridge", "word_shape")
"""The baselines of `finetune` that learn from the text; a kind of task has at most one of them."""


@dataclass(frozen=True)
class RaceTask:
    """A task: its files below the data folder, and the metric that counts."""

    kind: str
    train: str
    held_out: str
    metric: str
    text: str | None = None
    """The column of the text by number, in files without a header."""
    label: str | None = None
    """The column of the label by number, in files without a header."""


TASKS = {
    "SST-2": RaceTask("classification", "glue/SST-2/train.tsv", "glue/SST-2/dev.tsv", "accuracy"),
    "AG-News": RaceTask(
        "classification",
        "classification/AG-News-10k/train.tsv",
        "classification/AG-News-10k/test.tsv",
        "accuracy",
    ),
    "TREC-6": RaceTask(
        "classification",
        "classification/TREC-6/train.tsv",
        "classification/TREC-6/test.tsv",
        "accuracy",
    ),
    "MRPC": RaceTask(
        "classification",
        "glue/MRPC/msr_paraphrase_train.txt",
        "glue/MRPC/msr_paraphrase_test.txt",
        "accuracy",
    ),
    "STS-B": RaceTask("regression", "glue/STS-B/train.tsv", "glue/STS-B/dev.tsv", "pearson"),
    "RTE": RaceTask("classification", "glue/RTE/train.tsv", "glue/RTE/dev.tsv", "accuracy"),
    "CoLA": RaceTask(
        "classification", "glue/CoLA/train.tsv", "glue/CoLA/dev.tsv", "matthews", "4", "2"
    ),
    "CoNLL-2003": RaceTask(
        "tagging", "tagging/CoNLL-2003/train.txt", "tagging/CoNLL-2003/dev.txt", "f1"
    ),
    "SQuAD-1.1": RaceTask("span", "span/SQuAD-1.1/train.json", "span/SQuAD-1.1/dev.json", "f1"),
}
PROXY = ("SST-2", "TREC-6", "STS-B")
"""The tasks of a proxy."""


def architecture(run: Path) -> str:
    """Return a key of all that a model with random weights has in common with that of a run."""
    opened = open_model(run)
    sizes = values.plain(values.to_dict(opened.config))
    return digest([sizes, opened.tokenizer.fingerprint, opened.max_length])[:12]


def task_spec(name: str, data: Path, labels: int | None) -> TaskSpec:
    """Return a task with at most `labels` examples to learn from, and no dev file."""
    task = TASKS[name]
    files = TaskFilesConfig(
        str(data / task.train),
        text=task.text,
        label=task.label,
        metric=task.metric,
        bad_rows="skip",
    )
    options = KINDS[task.kind].options()
    return TaskSpec(name.replace(".", "-"), task.kind, files, options, most_train=labels)


def fit(
    name: str,
    data: Path,
    model: Path,
    out: Path,
    seed: int,
    labels: int | None,
    random_start: bool = False,
) -> dict[str, Any]:
    """Fine-tune a model by the defaults, and return its score in percent.

    Args:
        labels: the maximum number of labelled examples, drawn by the seed; None: all.
        random_start: whether to start from random weights in the architecture of the model. Only
            then the baselines are computed.
    """
    task, began = TASKS[name], time.monotonic()
    spec = task_spec(name, data, labels)
    config = FinetuneConfig(
        str(model), str(out), seed=seed, random_start=random_start, baselines=False
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    found = finetune([spec], config, silent, overwrite=True)
    tuned = load(out)
    seconds = time.monotonic() - began
    examples = read_held_out(name, data, tuned, seed)
    scored = score(tuned, examples, task.metric)
    tfidf = {"tfidf": baseline(name, data, tuned, examples, seed, labels)} if random_start else {}
    shutil.rmtree(out)
    return {
        "score": 100 * scored.metrics[task.metric],
        **tfidf,
        "metric": task.metric,
        "examples": found["data"]["train"]["examples"],
        "epochs": found["seeds"][0]["epochs"],
        "best_epoch": found["seeds"][0]["best_epoch"],
        "degenerate": scored.degenerate,
        "seconds": round(seconds, 1),
    }


def read_held_out(name: str, data: Path, tuned: Model, seed: int) -> list[Example]:
    """Return at most `MOST_HELD_OUT` of the examples that a task is scored on."""
    task = TASKS[name]
    columns = make_columns(task.text, None, task.label)
    options = reading(tuned.tasks[tuned.task_name(None)], "skip", None)
    read = read_examples(str(data / task.held_out), kind_of(task.kind).reader, columns, options)
    return draw([*read.examples], MOST_HELD_OUT, seed)


def baseline(
    name: str,
    data: Path,
    tuned: Model,
    examples: list[Example],
    seed: int,
    labels: int | None,
) -> float | None:
    """Return the score of the baseline that learns from the text, on held-out examples."""
    task, kind, config = TASKS[name], kind_of(TASKS[name].kind), tuned.tasks[tuned.task_name(None)]
    if not kind.has_baselines:
        return None
    columns = make_columns(task.text, None, task.label)
    read = read_examples(
        str(data / task.train), kind.reader, columns, reading(config, "skip", None)
    )
    found = kind.baselines(config, draw([*read.examples], labels, seed), examples, seed, False)
    for key, predictions in found.items():
        if key in BASELINES:
            return 100 * evaluate(config, examples, predictions, worst=0).metrics[task.metric]
    return None


def score(tuned: Model, examples: list[Example], metric: str) -> Evaluation:
    """Evaluate a fine-tuned model on examples."""
    name, runner = tuned.task_name(None), tuned.runner
    config = kind_of(tuned.tasks[name].kind).evaluated(tuned.tasks[name], examples)
    precision, _ = choose_precision(runner.device)
    part = TaskData(name, config, runner.tokenizer, examples)
    predictions = predict(runner.learner, part, precision, runner.batch_tokens)
    return evaluate(config, examples, predictions, main=metric, intervals=False, worst=0)


def score_pairs(model: Path, pairs: Path, limit: int | None, work: Path) -> dict[str, Any]:
    """Return the accuracy on minimal pairs in percent, as the mean over paradigms; None for a
    model without probabilities of texts, as an ELECTRA.

    Args:
        limit: the maximum number of pairs of a paradigm; None: all.
    """
    began, opened = time.monotonic(), load(model)
    if not scores_texts(opened.runner):
        return {"score": None, "pairs": 0}
    if limit is not None:
        pairs = first_pairs(pairs, limit, work / f"pairs-{limit}.jsonl")
    found = minimal_pairs([opened], str(pairs), "paradigm")
    accuracies = [each["accuracy"] for each in found["by"].values()]
    return {
        "score": 100 * statistics.fmean(accuracies),
        "pairs": found["pairs"],
        "seconds": round(time.monotonic() - began, 1),
    }


def first_pairs(pairs: Path, limit: int, out: Path) -> Path:
    """Write the first pairs of each paradigm, and return the file."""
    text = lzma.decompress(pairs.read_bytes()) if pairs.suffix == ".xz" else pairs.read_bytes()
    taken: Counter[str] = Counter()
    lines = []
    for line in text.decode().splitlines():
        paradigm = json.loads(line)["paradigm"]
        taken[paradigm] += 1
        if taken[paradigm] <= limit:
            lines.append(line)
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return out
