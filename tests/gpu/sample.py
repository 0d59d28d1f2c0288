"""Tiny models of every system that is trained by gradients and of every kind of task head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.checkpoint import checkpoint
from bertwright.config.task import HeadConfig, TaskConfig
from bertwright.data.shards import Shards, open_shards
from bertwright.models.bert.config import PRESETS
from bertwright.models.catalogue import MODELS
from bertwright.models.load import load, system_of
from bertwright.nn.batch import Batch
from bertwright.nn.init import initialize
from bertwright.nn.objective import Learner
from bertwright.recipes.pretrain import make_learner
from bertwright.tasks.batch import TaskBatch
from bertwright.tasks.choices.kind import ChoiceInstance
from bertwright.tasks.choices.options import MultipleChoiceTask
from bertwright.tasks.generation.options import GenerationOptions, GenerationTask
from bertwright.tasks.instances import Instance
from bertwright.tasks.span.options import SpanTask
from bertwright.tasks.tagging.kind import TaggingInstance
from bertwright.tasks.tagging.options import TaggingOptions, TaggingTask
from bertwright.tasks.task_data import make_batch
from bertwright.tasks.texts.options import ClassificationOptions, ClassificationTask, RegressionTask
from tests.contract.conftest import config_of
from tests.small_runs import WORDS, build_data, build_pairs, build_stories

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
"""Heads of 8, so that the variable-length kernel takes them."""
TRANSFORMER: dict[str, Any] = {**SIZES, "intermediate_size": 48}
RUNS: dict[str, dict[str, Any]] = {
    "bert": TRANSFORMER,
    "bert-ltr": TRANSFORMER,
    "gpt": SIZES,
    "gpt2": SIZES,
    "transformer": TRANSFORMER,
    "bert2rnd": {**TRANSFORMER, "num_decoder_layers": 1},
    "seq2seq": {"embedding_size": 16, "hidden_size": 32},
    "awd-lstm": {"embedding_size": 16, "hidden_size": 24},
    "elmo": {"dim": 24, "projection_dim": 16, "output_size": 40},
    "nnlm": {"hidden_size": 16, "context_size": 3, "direct_connections": True},
    "memory-network": {"hidden_size": 16, "memory_size": 6},
    "modernbert": {
        **TRANSFORMER,
        "num_hidden_layers": 3,
        "local_attention": 8,
        "global_attn_every_n_layers": 3,
    },
    "albert": {**TRANSFORMER, "embedding_size": 16},
}
"""The sizes of each system. RoBERTa computes what BERT does; ELECTRA draws random tokens on the
device."""
READ: dict[str, dict[str, Any]] = {"mpnet": TRANSFORMER}
"""The sizes of a system without runs that computes what no other does; it reads what BERT reads."""


@dataclass(frozen=True)
class TinyRun:
    """A tiny run of a system."""

    config: Any
    shards: Shards
    system: str

    def learner(self, dropout: float = 0.0) -> Learner:
        """Its learner, the same at each call: every parameter is random."""
        if self.system in READ:
            return self._read(dropout)
        config, part = self.config, self.config.architecture
        drops = {name: dropout for name in part.__dataclass_fields__ if "drop" in name}
        made = make_learner(replace(config, architecture=replace(part, **drops)), self.shards)
        return _scattered(made)

    def _read(self, dropout: float) -> Learner:
        drops = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        sizes = {**READ[self.system], **drops, "pooler": False}
        system = load(self.system)
        model = system.row.config(vocab_size=self.shards.vocab_size, **sizes)
        made = system.make_learner(model, ["masked_lm"])
        initialize(made, 0.02, torch.Generator().manual_seed(1))
        return _scattered(made)

    def batch(self, rows: int = 11) -> Batch:
        """A batch of its instances, of mixed lengths, on the host."""
        phase = system_of(self.config).trained_on(self.config, self.shards)[0]
        return phase.instances.batch(0, np.arange(rows))


def _scattered(learner: Learner) -> Learner:
    """The learner, with a random number added to every number."""
    generator = torch.Generator().manual_seed(1)
    for parameter in learner.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return learner


def tiny_run(system: str, folder: Path) -> TinyRun:
    """A tiny run of a system, its data in `folder`, which may hold them already."""
    is_paired = MODELS[system].reads == "pairs"
    build = build_pairs if is_paired else build_data
    build = build_stories if system == "memory-network" else build
    own = folder / build.__name__
    if not own.exists():
        own.mkdir(parents=True)
        build(own)
    shards = open_shards(own / "shards")
    trained = "bert" if system in READ else system
    over: dict[str, Any] = {"architecture": RUNS[trained]}
    if system in READ:
        over["instances"] = {"objectives": "mlm", "sequence_length": 32}
    return TinyRun(config_of(trained, shards.folder, folder / "run", **over), shards, system)


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
        ClassificationTask(labels=CLASSES),
        lambda: _texts(lambda n, size: {"label": n % 3}),
    ),
    "several labels": (
        ClassificationTask(labels=CLASSES, options=ClassificationOptions(multi_label=True)),
        lambda: _texts(lambda n, size: {"label": (n % 3,)}),
    ),
    "regression": (
        RegressionTask(),
        lambda: _texts(lambda n, size: {"label": n / 3}),
    ),
    "classification by an LSTM over a mix of layers": (
        ClassificationTask(labels=CLASSES, head=HeadConfig(layers="mix", network="bilstm")),
        lambda: _texts(lambda n, size: {"label": n % 3}),
    ),
    "classification by three poolings": (
        ClassificationTask(
            labels=CLASSES, head=HeadConfig(layers="last", pooling="last+max+mean", hidden_size=12)
        ),
        lambda: _texts(lambda n, size: {"label": n % 3}),
    ),
    "tagging": (TaggingTask(labels=CLASSES), lambda: _texts(_words)),
    "tagging by a CRF": (
        TaggingTask(labels=CLASSES, options=TaggingOptions(crf=True)),
        lambda: _texts(_words),
    ),
    "tagging by TagLM": (
        TaggingTask(labels=CLASSES, head=HeadConfig(network="taglm")),
        lambda: _texts(_words),
    ),
    "span": (
        SpanTask(),
        lambda: _texts(lambda n, size: {"label": (1, min(3, size - 1))}),
    ),
    "multiple choice": (MultipleChoiceTask(), _choices),
    "generation": (
        GenerationTask(options=GenerationOptions(max_target_tokens=32)),
        lambda: _texts(lambda n, size: {"label": size // 2}),
    ),
}
"""Every kind of task head: its task, and examples."""


def tiny_task(name: str) -> tuple[Learner, TaskBatch]:
    """A tiny BERT with a task head, every parameter random, and its batch."""
    task, instances = TASKS[name]
    head = replace(task.head, dropout=0.0)
    task = replace(task, head=head, max_length=64, stride=16)
    small = {**TRANSFORMER, "vocab_size": 90, "hidden_dropout_prob": 0.0}
    config = replace(PRESETS["bert-tiny"], **small, attention_probs_dropout_prob=0.0)
    learner = checkpoint.make_learner(config, [], tasks={"head": task})
    generator = torch.Generator().manual_seed(2)
    for parameter in learner.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = noise * 0.2 if parameter.ndim > 1 else parameter.data + noise * 0.1
    made = instances()
    return learner, make_batch("head", task, made, range(len(made)), torch.device("cpu"))
