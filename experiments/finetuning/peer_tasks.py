"""The tasks as transformers' own examples prepare them: features, padding, predictions to scores.

run_glue.py, run_ner.py and run_qa.py of transformers, each in a function. A `PeerTask` has what
its Trainer needs and a function from the logits of the held-out features to scores.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scores import classification_scores, regression_scores, span_scores, tagging_scores
from settings import Setting

Features = list[dict[str, Any]]


@dataclass(frozen=True)
class PeerTask:
    """A task ready for the Trainer."""

    model_class: str
    model_options: dict[str, Any]
    collator: str
    train: Features
    dev: Features
    examples: int
    """Training examples: sentences, pairs or questions (not windows)."""
    scores: Callable[[Any], dict[str, float]]


def make_task(setting: Setting, train: Path, dev: Path, tokenizer: Any) -> PeerTask:
    """Features of a task by its kind."""
    makers = {"tagging": make_tagging, "span": make_span}
    return makers.get(setting.kind, make_text)(setting, train, dev, tokenizer)


def read_texts(path: Path) -> tuple[list[str], list[str] | None, list[str]]:
    """Texts, second texts (of pairs) and labels of a GLUE file."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if path.parent.name == "CoLA":
        return [row[3] for row in rows], None, [row[1] for row in rows]
    header, rows = rows[0], rows[1:]
    if header[0] == "Quality":
        return [row[3] for row in rows], [row[4] for row in rows], [row[0] for row in rows]
    at = {name: place for place, name in enumerate(header)}
    if "score" in at:
        first, second, label = at["sentence1"], at["sentence2"], at["score"]
        return [r[first] for r in rows], [r[second] for r in rows], [r[label] for r in rows]
    return [r[at["sentence"]] for r in rows], None, [r[at["label"]] for r in rows]


def make_text(setting: Setting, train: Path, dev: Path, tokenizer: Any) -> PeerTask:
    """One text or two, a class or a number (run_glue.py)."""
    regression = setting.kind == "regression"
    read = {"train": read_texts(train), "dev": read_texts(dev)}
    classes = sorted(set(read["train"][2]))

    def features(split: str) -> Features:
        first, second, labels = read[split]
        encoded = tokenizer(first, second, truncation=True, max_length=setting.max_length)
        targets = [float(v) if regression else classes.index(v) for v in labels]
        return [
            {**{key: encoded[key][i] for key in encoded}, "label": target}
            for i, target in enumerate(targets)
        ]

    def scores(logits: Any) -> dict[str, float]:
        gold = read["dev"][2]
        if regression:
            return regression_scores([float(v) for v in gold], logits[:, 0].tolist())
        return classification_scores(gold, [classes[i] for i in logits.argmax(-1)])

    return PeerTask(
        "AutoModelForSequenceClassification",
        {"num_labels": 1 if regression else len(classes)},
        "DataCollatorWithPadding",
        features("train"),
        features("dev"),
        len(read["train"][0]),
        scores,
    )


def read_tags(path: Path) -> list[tuple[list[str], list[str]]]:
    """Words and tags (as IOB2) of every sentence of a CoNLL file."""
    sentences = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        rows = [line.split() for line in block.splitlines() if line.strip()]
        rows = [row for row in rows if row[0] != "-DOCSTART-"]
        if rows:
            sentences.append(([row[0] for row in rows], to_iob2([row[-1] for row in rows])))
    return sentences


def to_iob2(tags: list[str]) -> list[str]:
    """The first tag of an entity begins with B."""
    made = []
    for before, tag in zip(["O", *tags], tags, strict=False):
        begins = tag.startswith("I-") and before[2:] != tag[2:]
        made.append("B-" + tag[2:] if begins else tag)
    return made


def make_tagging(setting: Setting, train: Path, dev: Path, tokenizer: Any) -> PeerTask:
    """A tag a word, on its first piece (run_ner.py). Words past the cut count as O."""
    read = {"train": read_tags(train), "dev": read_tags(dev)}
    labels = sorted({tag for _, tags in read["train"] for tag in tags})

    def features(split: str) -> Features:
        encoded = tokenizer(
            [words for words, _ in read[split]],
            is_split_into_words=True,
            truncation=True,
            max_length=setting.max_length,
        )
        made = []
        for i, (_, tags) in enumerate(read[split]):
            places = encoded.word_ids(i)
            firsts = [p is not None and p != b for b, p in zip([None, *places], places)]  # noqa: B905
            ids = [
                labels.index(tags[place]) if first else -100
                for place, first in zip(places, firsts, strict=True)
            ]
            made.append({**{key: encoded[key][i] for key in encoded}, "labels": ids})
        return made

    held_out = features("dev")

    def scores(logits: Any) -> dict[str, float]:
        gold, predicted = [], []
        for (_, tags), feature, row in zip(read["dev"], held_out, logits, strict=True):
            first = np.array(feature["labels"]) != -100
            chosen = [labels[i] for i in row[: len(first)][first].argmax(-1)]
            gold.append(tags)
            predicted.append(chosen + ["O"] * (len(tags) - len(chosen)))
        return tagging_scores(gold, predicted)

    return PeerTask(
        "AutoModelForTokenClassification",
        {"num_labels": len(labels)},
        "DataCollatorForTokenClassification",
        features("train"),
        held_out,
        len(read["train"]),
        scores,
    )


def read_questions(path: Path) -> list[dict[str, Any]]:
    """Every question of a SQuAD file with its passage and answers."""
    return [
        {**question, "context": paragraph["context"]}
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


def encode_questions(questions: list[dict[str, Any]], setting: Setting, tokenizer: Any) -> Any:
    """Windows of the passages, each after its question."""
    return tokenizer(
        [question["question"].lstrip() for question in questions],
        [question["context"] for question in questions],
        truncation="only_second",
        max_length=setting.max_length,
        stride=setting.stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )


MODEL_INPUTS = ("input_ids", "token_type_ids", "attention_mask")


def make_span(setting: Setting, train: Path, dev: Path, tokenizer: Any) -> PeerTask:
    """Start and end of the answer (run_qa.py); a window without it learns (0, 0)."""
    learnt, asked = read_questions(train), read_questions(dev)
    encoded = encode_questions(learnt, setting, tokenizer)
    features: Features = []
    for i, owner in enumerate(encoded["overflow_to_sample_mapping"]):
        answer = learnt[owner]["answers"][0]
        begin, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
        sides = encoded.sequence_ids(i)
        spans = encoded["offset_mapping"][i]
        starts = [p for p, s in enumerate(sides) if s == 1 and spans[p][0] <= begin < spans[p][1]]
        ends = [p for p, s in enumerate(sides) if s == 1 and spans[p][0] < end <= spans[p][1]]
        inside = bool(starts and ends)
        features.append(
            {key: encoded[key][i] for key in MODEL_INPUTS}
            | {
                "start_positions": starts[0] if inside else 0,
                "end_positions": ends[-1] if inside else 0,
            }
        )
    windows = encode_questions(asked, setting, tokenizer)
    held_out = [
        {key: windows[key][i] for key in MODEL_INPUTS} for i in range(len(windows.input_ids))
    ]

    def scores(logits: Any) -> dict[str, float]:
        best: dict[str, tuple[float, str]] = {q["id"]: (-np.inf, "") for q in asked}
        for i, owner in enumerate(windows["overflow_to_sample_mapping"]):
            sides, spans = windows.sequence_ids(i), windows["offset_mapping"][i]
            start, end = (part[i][: len(sides)] for part in logits)
            for a in np.argsort(start)[:-21:-1]:
                for b in np.argsort(end)[:-21:-1]:
                    if sides[a] != 1 or sides[b] != 1 or b < a or b - a + 1 > 30:
                        continue
                    text = asked[owner]["context"][spans[a][0] : spans[b][1]]
                    found = (float(start[a] + end[b]), text)
                    key = asked[owner]["id"]
                    best[key] = max(best[key], found, key=lambda pair: pair[0])
        gold = {q["id"]: [answer["text"] for answer in q["answers"]] for q in asked}
        return span_scores(gold, {key: text for key, (_, text) in best.items()})

    return PeerTask(
        "AutoModelForQuestionAnswering",
        {},
        "DataCollatorWithPadding",
        features,
        held_out,
        len(learnt),
        scores,
    )
