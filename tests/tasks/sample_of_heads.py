"""A few labelled examples in windows, as batches of any of them, and a small BERT to read them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from bertwright.config.task import HeadConfig
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.encoder import Bert, bert_spec
from bertwright.nn.encoder import Encoded
from bertwright.nn.init import initialize
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.tasks.batch import TextBatch
from bertwright.tasks.choices.kind import ChoiceBatch, MultipleChoice
from bertwright.tasks.choices.options import MultipleChoiceTask
from bertwright.tasks.head import Head
from bertwright.tasks.span.kind import SpanBatch, SpanHead
from bertwright.tasks.span.options import SpanTask
from bertwright.tasks.tagging.kind import Tagger, TaggingBatch
from bertwright.tasks.tagging.options import TaggingTask
from bertwright.tasks.texts.kind import Classifier, Regressor
from bertwright.tasks.texts.options import ClassificationOptions, ClassificationTask, RegressionTask

HIDDEN, LAYERS, VOCAB = 12, 5, 53
CONFIG = BertConfig(
    vocab_size=VOCAB,
    hidden_size=HIDDEN,
    num_hidden_layers=LAYERS,
    num_attention_heads=3,
    intermediate_size=20,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=17,
)
LABELS = ("a", "b", "c", "d")
TASKS = {
    "classes": ClassificationTask(labels=LABELS),
    "labels": ClassificationTask(labels=LABELS, options=ClassificationOptions(multi_label=True)),
    "number": RegressionTask(),
    "tags": TaggingTask(labels=LABELS),
    "span": SpanTask(),
    "choice": MultipleChoiceTask(),
}
HEADS = {"tags": Tagger, "span": SpanHead, "choice": MultipleChoice, "number": Regressor}
BATCHES = {"tags": TaggingBatch, "span": SpanBatch, "choice": ChoiceBatch}

LENGTHS = [[9, 6], [7], [5], [7, 4, 7]]
"""Tokens of every window of four examples."""
CHOICES = [[0, 1], [0], [0], [0, 1, 1]]
"""The choice each of those windows is of."""
WORDS = [[(0, 1), (0, 4), (1, 2), (1, 4)], [(0, 3)], [(0, 1), (0, 2)], [(1, 2), (0, 5), (2, 1)]]
"""(window, place) of their words."""
ANSWERS = [[(2, 4), (0, 0)], [(1, 1)], [(0, 0)], [(0, 0), (3, 3), (2, 6)]]
WANTED: dict[str, list[Any]] = {
    "classes": [3, 0, 2, 1],
    "labels": [[0.0, 1, 1, 0], [0.0, 0, 0, 0], [1.0, 1, 1, 1], [0.0, 0, 0, 1]],
    "number": [0.3, -1.5, 2.0, 0.0],
    "tags": [[0, 1, 1, 3], [2], [0, 0], [3, 3, 1]],
    "choice": [1, 0, 0, 1],
}
ALL = [0, 1, 2, 3]


def make_batch(kind: str, chosen: list[int]) -> Any:
    """The windows of chosen examples, longest first."""
    windows = [
        (length, place, example, number)
        for place, example in enumerate(chosen)
        for number, length in enumerate(LENGTHS[example])
    ]
    windows.sort(key=lambda window: -window[0])
    lengths = [window[0] for window in windows]
    starts = Sequences(lengths).offsets
    at = {(window[1], window[3]): start for window, start in zip(windows, starts, strict=False)}
    given: dict[str, Any] = {"owners": torch.tensor([window[1] for window in windows])}
    if kind in ("tags", "span"):
        del given["owners"]
    labels: Any = WANTED.get(kind, [])
    labels = [labels[example] for example in chosen] if labels else []
    if kind == "tags":
        places = [(p, *word) for p, example in enumerate(chosen) for word in WORDS[example]]
        given["words"] = torch.tensor([at[p, window] + place for p, window, place in places])
        given["counts"] = tuple(len(WORDS[example]) for example in chosen)
        given["texts"] = tuple(f"w{window}é" * place for _, window, place in places)
        labels = [tag for tags in labels for tag in tags]
    if kind == "span":
        labels = [ANSWERS[example][number] for _, _, example, number in windows]
        chosen = [example for _, _, example, _ in windows]
    if kind == "choice":
        counts = [max(CHOICES[example]) + 1 for example in chosen]
        own = [sum(counts[:p]) + CHOICES[example][number] for _, p, example, number in windows]
        given |= {"owners": torch.tensor(own), "counts": tuple(counts)}
    batch_of: Any = BATCHES.get(kind, TextBatch)
    return batch_of(
        Inputs(
            torch.cat([ids_of(example, number) for _, _, example, number in windows]),
            Sequences(lengths),
        ),
        tuple(chosen),
        torch.tensor(labels),
        task="task",
        **given,
    )


def ids_of(example: int, number: int) -> Tensor:
    """The tokens of a window."""
    chance = torch.Generator().manual_seed(10 * example + number)
    return torch.randint(1, VOCAB, (LENGTHS[example][number],), generator=chance)


def make_head(
    kind: str, weights: Tensor | None = None, merge: str = "mean", **head: Any
) -> Head[Any]:
    """A head of random weights, none of them 0, without dropout unless told."""
    task = TASKS[kind]
    options: dict[str, Any] = {"merge": merge} if kind not in ("tags", "span") else {}
    if kind == "tags":
        options["crf"] = head.pop("crf", False)
    task = replace(
        task,
        options=replace(task.options, **options),
        head=HeadConfig(**{"dropout": 0.0, "network_size": 5, **head}),
    )
    made: Head[Any] = HEADS.get(kind, Classifier)(bert_spec(CONFIG), task)
    if weights is not None:
        made.class_weights = weights
    chance = torch.Generator().manual_seed(4)
    for parameter in made.parameters():
        parameter.data.normal_(0.0, 0.4, generator=chance)
    return made


def make_learner(head: Head[Any]) -> Learner:
    """A small BERT with this head."""
    encoder = Bert(CONFIG)
    initialize(encoder, 0.3, torch.Generator().manual_seed(3))
    return Learner(encoder, {"task": head})


def random_encoded(batch: Any) -> Encoded:
    """What an encoder might say of a batch, all layers different."""
    chance = torch.Generator().manual_seed(9)
    shape = (LAYERS + 1, batch.inputs.sequences.total, HIDDEN)
    layers = tuple(torch.randn(shape, generator=chance))
    pooled = torch.randn(batch.inputs.sequences.count, HIDDEN, generator=chance)
    return Encoded(batch.inputs.sequences, layers[-1], layers, pooled)


def by_example(kind: str, scores: Tensor, batch: Any) -> list[Tensor]:
    """The scores of each example; of spans, of each window."""
    if kind == "span":
        return [scores[a:b] for a, b in pairwise(batch.inputs.sequences.offsets)]
    if kind in ("tags", "choice"):
        return list(scores.split(list(batch.counts)))
    return list(scores)
