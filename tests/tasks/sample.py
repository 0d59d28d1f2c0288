"""A tiny tokenizer, and tiny models with one head, of random weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from bertwright.config.task import TaskConfig
from bertwright.models.bert.encoder import Bert, bert_spec
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs
from bertwright.tasks.batch import TaskBatch, TextBatch
from bertwright.tasks.choices.kind import ChoiceBatch, MultipleChoice
from bertwright.tasks.generation.kind import Generator
from bertwright.tasks.head import Head
from bertwright.tasks.span.kind import SpanBatch, SpanHead
from bertwright.tasks.tagging.kind import Tagger, TaggingBatch
from bertwright.tasks.texts.kind import Classifier, Regressor
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.small_bert import CONFIG as SMALL
from tests.small_bert import LETTERS, scatter

TOKENIZER = make_tokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{c}" for c in LETTERS), *".,!?"]
)
CONFIG = replace(SMALL, vocab_size=TOKENIZER.vocab_size, max_position_embeddings=32)
HEADS: dict[str, type[Head[Any]]] = {
    "classification": Classifier,
    "regression": Regressor,
    "tagging": Tagger,
    "span": SpanHead,
    "multiple-choice": MultipleChoice,
    "generation": Generator,
}


def ids_of(text: str) -> list[int]:
    """Ids of a text without added tokens."""
    return TOKENIZER.encode(text).ids[1:-1]


def make_learner(task: TaskConfig, name: str = "head", seed: int = 0) -> Learner:
    """A BERT with the head of a task, weights wide enough that everything matters."""
    head = HEADS[task.kind](bert_spec(CONFIG), task)
    encoder = Bert(CONFIG)
    head.tie(encoder)
    learner = Learner(encoder, {name: head})
    scatter(learner, 0.2, 0.1, seed)
    return learner


def unlabelled_batch(kind: str, inputs: Inputs, name: str) -> TaskBatch:
    """Windows of one example each, or of multiple choice two; every token is a word."""
    lengths, total = inputs.sequences.lengths, inputs.sequences.total
    rows, owners = tuple(range(len(lengths))), torch.arange(len(lengths))
    if kind == "tagging":
        return TaggingBatch(
            inputs,
            rows,
            words=torch.arange(total),
            counts=tuple(lengths),
            texts=tuple("abcd"[n % 4] for n in range(total)),
            task=name,
        )
    if kind == "span":
        return SpanBatch(inputs, rows, task=name)
    if kind == "multiple-choice":
        examples = len(lengths) // 2
        return ChoiceBatch(
            inputs, tuple(range(examples)), owners=owners, counts=(2,) * examples, task=name
        )
    return TextBatch(inputs, rows, owners=owners, task=name)
