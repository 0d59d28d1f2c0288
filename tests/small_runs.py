"""A corpus of a few hundred sentences, its shards, and a run so small that it takes a moment."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertwright.config import values
from bertwright.config.corpus import CorpusConfig
from bertwright.data.build import build_shards
from bertwright.data.parallel.build import build_parallel
from bertwright.errors import BertwrightError
from bertwright.models.bert.config import BertRun
from bertwright.models.memory_network.generate import generate_stories
from bertwright.recipes import pretrain as pretraining
from bertwright.recipes.configure import configure
from bertwright.text.tokenizer.tokenizer import make_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [a + b for a in "bdfgklmnp" for b in ("a", "e", "i", "o", "u", "an", "er", "il", "or")]
# What two runs share only if they were equally fast.
CLOCKED = ("seconds", "tokens_per_second", "utilization", "memory_gb")

Pretrain = Callable[..., list[str]]


def build_data(folder: Path, words: list[str] = WORDS, documents: int = 40) -> Path:
    """Shards of made-up documents of 8 sentences; each sentence counts on from a word."""
    chance = random.Random(1)
    make_tokenizer([*SPECIAL, *words, "."]).save(folder / "tokenizer")
    text = []
    for _ in range(documents):
        for _ in range(8):
            first, length = chance.randrange(len(words)), chance.randint(4, 12)
            text.append(" ".join(words[(first + n) % len(words)] for n in range(length)) + " .")
        text.append("")
    (folder / "corpus.txt").write_text("\n".join(text))
    out = folder / "shards"
    build_shards([str(folder / "corpus.txt")], out, folder / "tokenizer", workers=1)
    return out


def build_pairs(folder: Path, words: list[str] = WORDS, pairs: int = 300) -> Path:
    """Shards of made-up pairs: the target is the source from its end, each word the next one."""
    chance = random.Random(1)
    make_tokenizer([*SPECIAL, *words, "."]).save(folder / "tokenizer")
    rows = [
        [chance.randrange(len(words)) for _ in range(chance.randint(2, 9))] for _ in range(pairs)
    ]
    for name, step in (("source", 0), ("target", 1)):
        lines = [
            " ".join(words[(n + step) % len(words)] for n in row[:: 1 - 2 * step]) for row in rows
        ]
        (folder / name).write_text("\n".join(lines) + "\n")
    build_parallel(folder / "source", folder / "target", folder / "shards", folder / "tokenizer")
    return folder / "shards"


def build_stories(folder: Path) -> Path:
    """Shards of 200 made-up stories with a question and its answer."""
    stories = list(generate_stories("one-fact", 200, seed=1))
    words = sorted({word for story in stories for line in story for word in line.split()})
    make_tokenizer([*SPECIAL, *words, *WORDS]).save(folder / "tokenizer")
    (folder / "corpus.txt").write_text("\n\n".join("\n".join(story) for story in stories))
    out = folder / "shards"
    lines = CorpusConfig(sentences="line")
    build_shards([str(folder / "corpus.txt")], out, folder / "tokenizer", lines, workers=1)
    return out


def mapping_of(data: Path, out: Path, **over: Any) -> dict[str, Any]:
    """A run of 20 steps of four micro-batches each, as a configuration file has it."""
    base: dict[str, Any] = {
        "data": str(data),
        "out": str(out),
        "model": "bert-tiny",
        "precision": "fp32",
        "device": "cpu",
        "architecture": {
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "max_position_embeddings": 64,
            "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.0,
        },
        "instances": {"sequence_length": 32},
        "batch": {"tokens": 256, "micro_tokens": 64},
        "optimizer": {"matrices": "adamw"},
        "validation": {"fraction": 0.1, "tokens": 512, "every_steps": 6},
        "log": {"every_steps": 3},
    }
    if not {"steps", "minutes", "epochs"} & over.keys():
        base["steps"] = 20
    return values.merge(base, over)


def config_of(data: Path, out: Path, **over: Any) -> BertRun:
    """`mapping_of` as a configuration."""
    return configure(BertRun, mapping_of(data, out, **over))


def train(config: BertRun, **options: bool) -> list[str]:
    """Run it; what it said."""
    said: list[str] = []
    pretraining.pretrain(config, said.append, **options)
    return said


def fails(config: BertRun, error: type[BertwrightError], message: str, **options: bool) -> None:
    """Running it ends with this error."""
    with pytest.raises(error, match=message):
        train(config, **options)


def newest(run: Path) -> Path:
    """The checkpoint that `latest` names."""
    folder = run / "checkpoints"
    return folder / (folder / "latest").read_text().strip()


def records(run: Path) -> list[dict[str, Any]]:
    """Every line of the log."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def without_clocks(run: Path) -> list[dict[str, Any]]:
    """Every line of the log, less what depends on the clock."""
    return [{k: v for k, v in each.items() if k not in CLOCKED} for each in records(run)]


def tensors(run: Path) -> dict[str, torch.Tensor]:
    """Weights and moments of the newest checkpoint."""
    folder = newest(run)
    return {**load_file(folder / "model.safetensors"), **load_file(folder / "trainer.safetensors")}


def assert_same_run(one: Path, other: Path) -> None:
    """Weights, optimizer, position and metrics, bit for bit."""
    ours, theirs = tensors(one), tensors(other)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name
    states = [json.loads((newest(run) / "trainer.json").read_text()) for run in (one, other)]
    for state in states:
        del state["position"]["seconds"], state["position"]["window"]
    assert states[0] == states[1]
    assert without_clocks(one) == without_clocks(other)
