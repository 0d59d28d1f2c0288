"""Models and batches for the checks: tiny ones of every system and kind of task, for parity; ones
of published size with random weights and ids, ours and those of transformers, for speed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertwright.checkpoint import checkpoint
from bertwright.config import values
from bertwright.config.corpus import CorpusConfig
from bertwright.config.task import HeadConfig, TaskConfig
from bertwright.data.batch import inputs_of
from bertwright.data.build import build_shards
from bertwright.data.parallel.build import build_parallel
from bertwright.data.shards import Shards, open_shards
from bertwright.data.token_streams import TokenStreamBatch
from bertwright.models.bert.config import PRESETS
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.catalogue import system_of, trainable
from bertwright.models.gpt.config import Gpt2Config
from bertwright.models.memory_network.generate import generate_stories
from bertwright.nn.batch import Batch
from bertwright.nn.objective import Learner
from bertwright.recipes.pretrain import make_learner
from bertwright.tasks.batch import make_batch
from bertwright.tasks.choices import ChoiceInstance
from bertwright.tasks.instances import Instance
from bertwright.tasks.tagging import TaggingInstance
from bertwright.text.tokenizer.tokenizer import make_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [a + b for a in "bdfgklmnp" for b in ("a", "e", "i", "o", "u", "an", "er", "il", "or")]
BERT_VOCABULARY, GPT2_VOCABULARY = 30522, 50257
MASKED = 0.15

TINY: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
"""Heads of 8, so that the variable-length kernel takes them."""
ENCODER_DECODER: dict[str, Any] = {**TINY, "intermediate_size": 48}
SMALL_BERT: dict[str, Any] = {**ENCODER_DECODER, "max_position_embeddings": 512}
RUNS: dict[str, dict[str, Any]] = {
    "bert": {"model": "bert-tiny", "architecture": ENCODER_DECODER},
    "bert-ltr": {"model": "bert-tiny-ltr", "architecture": ENCODER_DECODER},
    "gpt": {"architecture": TINY},
    "gpt2": {"architecture": TINY},
    "transformer": {"architecture": ENCODER_DECODER, "sequence_length": 32},
    "bert2rnd": {
        "architecture": {**ENCODER_DECODER, "num_decoder_layers": 1},
        "sequence_length": 32,
    },
    "seq2seq": {
        "model": "seq2seq-base",
        "architecture": {"embedding_size": 16, "hidden_size": 32},
        "sequence_length": 32,
    },
    "awd-lstm": {"architecture": {"embedding_size": 16, "hidden_size": 24}},
    "elmo": {"architecture": {"dim": 24, "projection_dim": 16, "output_size": 40}},
    "nnlm": {
        "architecture": {"hidden_size": 16, "context_size": 3, "direct_connections": True},
    },
    "memory-network": {
        "architecture": {"hidden_size": 16, "memory_size": 6},
        "longest_story": 64,
    },
    "modernbert": {
        "architecture": {
            **ENCODER_DECODER,
            "num_hidden_layers": 3,
            "local_attention": 8,
            "global_attn_every_n_layers": 3,
        },
    },
    "mpnet": {"architecture": ENCODER_DECODER},
    "albert": {"architecture": {**ENCODER_DECODER, "embedding_size": 16}},
}
"""The systems that are trained by gradients, each with the sizes of a tiny run. RoBERTa and
DistilBERT compute what BERT does; ELECTRA draws random tokens on the device."""


@cache
def tiny_shards(kind: str, folder: Path) -> Shards:
    """Shards of made-up text, `text`, `pairs` or `stories`."""
    own = folder / kind
    own.mkdir(parents=True, exist_ok=True)
    chance = random.Random(1)
    out, tokenizer = own / "shards", own / "tokenizer"
    if kind == "stories":
        stories = list(generate_stories("one-fact", 60, seed=1))
        words = sorted({word for story in stories for line in story for word in line.split()})
        make_tokenizer([*SPECIAL, *words, *WORDS]).save(tokenizer)
        (own / "text.txt").write_text("\n\n".join("\n".join(story) for story in stories))
        lines_are_sentences = CorpusConfig(sentences="line")
        build_shards([str(own / "text.txt")], out, tokenizer, lines_are_sentences, workers=1)
        return open_shards(out)
    make_tokenizer([*SPECIAL, *WORDS, "."]).save(tokenizer)
    if kind == "text":
        lines = []
        for _ in range(40):
            for _ in range(8):
                first, length = chance.randrange(len(WORDS)), chance.randint(4, 12)
                lines.append(" ".join(WORDS[(first + n) % len(WORDS)] for n in range(length)))
            lines.append("")
        (own / "text.txt").write_text("\n".join(lines))
        build_shards([str(own / "text.txt")], out, tokenizer, workers=1)
        return open_shards(out)
    rows = [[chance.randrange(len(WORDS)) for _ in range(chance.randint(2, 9))] for _ in range(200)]
    for name, step in (("source", 0), ("target", 1)):
        texts = [
            " ".join(WORDS[(n + step) % len(WORDS)] for n in row[:: 1 - 2 * step]) for row in rows
        ]
        (own / name).write_text("\n".join(texts) + "\n")
    build_parallel(own / "source", own / "target", out, tokenizer)
    return open_shards(out)


@dataclass(frozen=True)
class TinyRun:
    """A tiny run of a system."""

    config: Any
    shards: Shards

    def learner(self, dropout: float = 0.0) -> Learner:
        """Its learner, the same at each call: every parameter is random."""
        config, part = self.config, self.config.architecture
        drops = {name: dropout for name in part.__dataclass_fields__ if "drop" in name}
        made = make_learner(replace(config, architecture=replace(part, **drops)), self.shards)
        generator = torch.Generator().manual_seed(1)
        for parameter in made.parameters():
            parameter.data.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
        return made

    def batch(self, rows: int = 11) -> Batch:
        """A batch of its instances, of mixed lengths, on the host."""
        phase = system_of(self.config).trained_on(self.config, self.shards)[0]
        return phase.instances.batch(0, np.arange(rows))


def tiny_run(system: str, folder: Path) -> TinyRun:
    """A tiny run of a system, its data in `folder`."""
    kind = "pairs" if trainable()[system].reads_pairs else "text"
    shards = tiny_shards("stories" if system == "memory-network" else kind, folder)
    run = trainable()[system]
    mapping: dict[str, Any] = {
        "data": str(shards.folder),
        "out": str(folder / "run"),
        "model": run.default_model,
        "steps": 4,
        "precision": "fp32",
        "device": "cpu",
        "sequence_length": 20,
        "instances": {"sequence_length": 32},
        "batch": {"tokens": 256, "micro_tokens": 128},
        "validation": {"fraction": 0.1},
        **RUNS[system],
    }
    known = {key: mapping[key] for key in mapping.keys() & run.__dataclass_fields__.keys()}
    return TinyRun(values.from_dict(run, known), shards)


CLASSES = ("x", "y", "z")


def _texts(labels: Callable[[int, int], dict[str, Any]]) -> list[Instance]:
    sizes = (19, 14, 11, 11, 8, 6, 5)
    return [
        TaggingInstance(n, (list(range(5, 5 + size)),), ([0] * size,), **labels(n, size))
        for n, size in enumerate(sizes)
    ]


def _choices() -> list[Instance]:
    return [
        ChoiceInstance(
            n,
            tuple([5 + (k * 23 + 7 * t) % 80 for t in range(size)] for k in range(count)),
            tuple([0] * size for _ in range(count)),
            label=n % count,
            owners=tuple(range(count)),
        )
        for n, (size, count) in enumerate(((9, 3), (7, 2), (5, 4)))
    ]


def _words(n: int, size: int) -> dict[str, Any]:
    words = tuple(range(1, size - 1, 2))
    return {
        "label": tuple((n + k) % 3 for k in range(len(words))),
        "words": words,
        "texts": tuple(WORDS[k] for k in range(len(words))),
        "counts": (len(words),),
    }


TASKS: dict[str, tuple[TaskConfig, Callable[[], list[Instance]]]] = {
    "classification": (
        TaskConfig("classification", CLASSES),
        lambda: _texts(lambda n, size: {"label": n % 3}),
    ),
    "several labels": (
        TaskConfig("classification", CLASSES, multi_label=True),
        lambda: _texts(lambda n, size: {"label": (n % 3,)}),
    ),
    "regression": (
        TaskConfig("regression"),
        lambda: _texts(lambda n, size: {"label": n / 3}),
    ),
    "classification by an LSTM over a mix of layers": (
        TaskConfig("classification", CLASSES, head=HeadConfig(layers="mix", network="bilstm")),
        lambda: _texts(lambda n, size: {"label": n % 3}),
    ),
    "classification by three poolings": (
        TaskConfig(
            "classification",
            CLASSES,
            head=HeadConfig(layers="last", pooling="last+max+mean", hidden_size=12),
        ),
        lambda: _texts(lambda n, size: {"label": n % 3}),
    ),
    "tagging": (TaskConfig("tagging", CLASSES), lambda: _texts(_words)),
    "tagging by a CRF": (
        TaskConfig("tagging", CLASSES, head=HeadConfig(crf=True)),
        lambda: _texts(_words),
    ),
    "tagging by TagLM": (
        TaskConfig("tagging", CLASSES, head=HeadConfig(network="taglm")),
        lambda: _texts(_words),
    ),
    "span": (
        TaskConfig("span"),
        lambda: _texts(lambda n, size: {"label": (1, min(3, size - 1))}),
    ),
    "multiple choice": (TaskConfig("multiple-choice"), _choices),
    "generation": (
        TaskConfig("generation"),
        lambda: _texts(lambda n, size: {"label": size // 2}),
    ),
}
"""Every kind of task head: its task, and examples."""


def tiny_task(name: str) -> tuple[Learner, Callable[[torch.device], Any]]:
    """A tiny BERT with a task head, every parameter random, and its batch on a device."""
    task, instances = TASKS[name]
    head = replace(task.head, dropout=0.0)
    task = replace(task, head=head, max_length=64, stride=16, max_target_tokens=32)
    small = {**ENCODER_DECODER, "vocab_size": 90, "hidden_dropout_prob": 0.0}
    config = replace(PRESETS["bert-tiny"], **small, attention_probs_dropout_prob=0.0)
    learner = checkpoint.make_learner(config, [], tasks={"head": task})
    generator = torch.Generator().manual_seed(2)
    for parameter in learner.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = noise * 0.2 if parameter.ndim > 1 else parameter.data + noise * 0.1
    made = instances()
    return learner, lambda device: make_batch("head", task, made, range(len(made)), device)


def import_peers(*more: str) -> dict[str, Any]:
    """Import what stands beside us, so that no check waits for it; its versions."""
    names = ("transformers", *more)
    return {name: str(import_module(name).__version__) for name in names}


@dataclass(frozen=True)
class Size:
    """A model and a kind of batch whose training step is timed."""

    model: str
    length: int
    mixed: bool
    tokens: int
    title: str = ""

    @property
    def name(self) -> str:
        """For the record: the title, or what it is."""
        return (
            self.title
            or f"{self.model}, {self.length}, {'mixed' if self.mixed else 'fixed'} lengths"
        )

    def lengths(self) -> list[int]:
        """Lengths of the sequences, longest first, about `tokens` in all: all the longest, or of
        even chance from a sixteenth of it to it."""
        if not self.mixed:
            return [self.length] * max(1, self.tokens // self.length)
        chance, found = random.Random(self.length), [self.length]
        while sum(found) < self.tokens:
            found.append(chance.randint(max(4, self.length // 16), self.length))
        return sorted(found, reverse=True)


def our_learner(size: Size, shrink: bool) -> Learner:
    """Ours, random weights, without dropout as its recipes are; tiny where `shrink`."""
    drops: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    if size.model == "gpt2":
        drops |= {**TINY, "vocab_size": 200, "max_position_embeddings": 1024} if shrink else {}
        config: Any = replace(Gpt2Config(vocab_size=GPT2_VOCABULARY), **drops)
        return checkpoint.make_learner(config, ["next_token"])
    drops["vocab_size"] = 200 if shrink else BERT_VOCABULARY
    drops |= SMALL_BERT if shrink else {}
    return checkpoint.make_learner(replace(PRESETS[size.model], **drops), ["masked_lm"])


def our_batch(size: Size, vocabulary: int, device: torch.device) -> Any:
    """Random ids of such lengths, on a device."""
    chance = np.random.default_rng(size.length)
    lengths = np.array(size.lengths())
    total = int(lengths.sum())
    inputs = inputs_of(chance.integers(5, vocabulary, total), lengths)
    if size.model == "gpt2":
        ends = lengths.cumsum() - 1
        at = np.setdiff1d(np.arange(total), ends)
        return TokenStreamBatch(inputs, inputs.ids, torch.from_numpy(at)).to(device)
    masked = np.sort(chance.choice(total, int(MASKED * total), replace=False))
    labels = chance.integers(5, vocabulary, len(masked))
    return MaskedBatch(
        inputs,
        torch.from_numpy(masked),
        torch.from_numpy(labels),
        None,
        torch.arange(len(lengths)),
    ).to(device)


def their_model(size: Size, shrink: bool) -> Any:
    """The model of transformers of the same sizes, by SDPA, without dropout."""
    transformers: Any = import_module("transformers")
    if size.model == "gpt2":
        small = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 200} if shrink else {}
        drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
        config: Any = transformers.GPT2Config(**small, **drops, attn_implementation="sdpa")
        return transformers.GPT2LMHeadModel(config)
    ours = replace(PRESETS[size.model], **(SMALL_BERT if shrink else {}))
    config = transformers.BertConfig(
        vocab_size=200 if shrink else BERT_VOCABULARY,
        hidden_size=ours.hidden_size,
        num_hidden_layers=ours.num_hidden_layers,
        num_attention_heads=ours.num_attention_heads,
        intermediate_size=ours.intermediate_size,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa",
    )
    return transformers.BertForMaskedLM(config)


def their_batch(size: Size, vocabulary: int, device: torch.device) -> dict[str, Tensor]:
    """The same lengths as a padded rectangle, in random order as a collator gets them; no mask
    where nothing is padded."""
    generator = torch.Generator().manual_seed(size.length)
    lengths = torch.tensor(size.lengths())
    lengths = lengths[torch.randperm(len(lengths), generator=generator)]
    shape = len(lengths), int(lengths.max())
    ids = torch.randint(5, vocabulary, shape, generator=generator)
    real = torch.arange(shape[1]) < lengths[:, None]
    labels = ids.clone()
    if size.model != "gpt2":
        chosen = torch.rand(shape, generator=generator) < MASKED
        labels = labels.masked_fill(~chosen, -100)
    labels = labels.masked_fill(~real, -100)
    batch = {"input_ids": ids.masked_fill(~real, 0), "labels": labels}
    if size.mixed:
        batch["attention_mask"] = real.long()
    return {name: x.to(device) for name, x in batch.items()}
