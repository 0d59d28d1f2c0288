"""Labelled files of every kind that a tiny BERT learns in a moment, and a tiny BERT."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from bertwright.config import values
from bertwright.config.finetune import FinetuneConfig
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.encoder import bert_spec
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import TaskSpec
from bertwright.tasks.catalogue import files_and_options
from tests import small_bert

LETTERS = "abcdefghij"
SHAPE = BertConfig(
    vocab_size=24,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=40,
)
SPEC = bert_spec(SHAPE)


def write_model(folder: Path) -> Path:
    """A BERT of random weights that are wide enough to tell words apart."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *".,!?"]
    heads = ["masked_lm", "next_sentence"]
    return small_bert.write_model(
        folder, heads, SHAPE, vocabulary=vocabulary, seed=1, std=0.15, noise=0.0
    )


def _words(chance: random.Random, least: int = 3, most: int = 9) -> list[str]:
    return [chance.choice(LETTERS) for _ in range(chance.randint(least, most))]


def write_files(folder: Path, kind: str, train: int = 120, dev: int = 40) -> tuple[Path, Path]:
    """A training and a dev file of a task."""
    chance = random.Random(kind)
    paths = []
    for name, count in (("train", train), ("dev", dev)):
        rows = [WRITERS[kind](chance, number) for number in range(count)]
        paths.append(folder / f"{kind}-{name}.{'txt' if kind == 'tagging' else 'jsonl'}")
        if kind == "tagging":
            text = "\n\n".join("\n".join(f"{w} {t}" for w, t in row) for row in rows) + "\n"
        else:
            text = "".join(json.dumps(row) + "\n" for row in rows)
        paths[-1].write_text(text)
    return paths[0], paths[1]


def _classification(chance: random.Random, number: int) -> dict[str, Any]:
    words = [w for w in _words(chance) if w != "a"] or ["b"]
    if number % 2:
        words[chance.randrange(len(words))] = "a"
    return {"text": " ".join(words), "label": "with" if number % 2 else "without"}


def _pair(chance: random.Random, number: int) -> dict[str, Any]:
    row = _classification(chance, number)
    return {"sentence1": row["text"], "sentence2": "b c d", "label": row["label"]}


def _regression(chance: random.Random, number: int) -> dict[str, Any]:
    words = _words(chance)
    return {"text": " ".join(words), "label": words.count("a") + 0.5 * words.count("b")}


def _tagging(chance: random.Random, number: int) -> list[tuple[str, str]]:
    words = _words(chance)
    return [(word, {"a": "B-X", "b": "B-Y"}.get(word, "O")) for word in words]


def _span(chance: random.Random, number: int) -> dict[str, Any]:
    words = [w for w in _words(chance, 4, 9) if w != "j"] or ["b"]
    place = chance.randrange(len(words))
    words[place] = "j"  # not "a": an article is no answer to the official script
    context = " ".join(words)
    answers = {"text": ["j"], "answer_start": [2 * place]}
    return {"id": f"q{number}", "question": "c ?", "context": context, "answers": answers}


def _choice(chance: random.Random, number: int) -> dict[str, Any]:
    right = chance.randrange(3)
    choices = [" ".join(w for w in _words(chance) if w != "a") or "b" for _ in range(3)]
    choices[right] += " a"
    return {"text": "d", "question": "e", "choices": choices, "label": right}


def _generation(chance: random.Random, number: int) -> dict[str, Any]:
    words = _words(chance, 1, 3)
    return {"source": " ".join(words), "target": " ".join(word for word in words[::-1])}


WRITERS = {
    "classification": _classification,
    "pair": _pair,
    "regression": _regression,
    "tagging": _tagging,
    "span": _span,
    "multiple-choice": _choice,
    "generation": _generation,
}


def learn(
    model: Path, out: Path, kind: str, train: Path, dev: Path | None, **changes: Any
) -> tuple[dict[str, Any], list[str]]:
    """Fine-tune; the figures and what was said."""
    kind = "classification" if kind == "pair" else kind
    of_run = values.keys_of(FinetuneConfig)
    own = {key: changes.pop(key) for key in list(changes) if key not in of_run}
    keys = {"train": str(train), "dev": str(dev) if dev else None, **own}
    usual = {"epochs": 6.0, "learning_rate": 3e-3, "batch_size": 16, "precision": "fp32"}
    config = FinetuneConfig(str(model), str(out), device="cpu", **{**usual, **changes})
    said: list[str] = []
    task = TaskSpec("task", kind, *files_and_options(kind, keys))
    results = finetune([task], config, said.append)
    return results, said
