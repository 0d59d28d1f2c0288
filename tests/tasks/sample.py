"""A tiny tokenizer, and tiny models with one head, of random weights."""

from __future__ import annotations

import torch

from bertwright.config.bert import BertConfig
from bertwright.config.task import TaskConfig
from bertwright.models.bert import Bert
from bertwright.nn.init import initialize
from bertwright.objectives.classifier import Classifier
from bertwright.objectives.labelled import Head
from bertwright.objectives.multiple_choice import MultipleChoice
from bertwright.objectives.objective import Learner
from bertwright.objectives.span import Span
from bertwright.objectives.tagger import Tagger
from bertwright.text.tokenizer import make_tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENIZER = make_tokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{c}" for c in LETTERS), *".,!?"]
)
CONFIG = BertConfig(
    vocab_size=TOKENIZER.vocab_size,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=32,
)
HEADS: dict[str, type[Head]] = {
    "classification": Classifier,
    "regression": Classifier,
    "tagging": Tagger,
    "span": Span,
    "multiple-choice": MultipleChoice,
}


def ids_of(text: str) -> list[int]:
    """Ids of a text without added tokens."""
    return TOKENIZER.encode(text).ids[1:-1]


def make_learner(task: TaskConfig, name: str = "head", seed: int = 0) -> Learner:
    """A BERT with the head of a task, weights wide enough that everything matters."""
    head = HEADS[task.kind](CONFIG.hidden_size, CONFIG.num_hidden_layers, task)  # type: ignore[call-arg]
    learner = Learner(Bert(CONFIG), {name: head})
    chance = torch.Generator().manual_seed(seed)
    initialize(learner, 0.2, chance)
    for parameter in learner.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=chance) * 0.1)
    return learner
