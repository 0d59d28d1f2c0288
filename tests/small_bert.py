"""A small BERT of random weights, and a folder of it: what most tests of models begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from bertwright.checkpoint.checkpoint import make_learner, save
from bertwright.config.task import TaskConfig
from bertwright.models.bert.config import BertConfig
from bertwright.models.gpt.config import GptConfig
from bertwright.models.transformer.config import TransformerConfig
from bertwright.nn.init import initialize
from bertwright.text.tokenizer.tokenizer import make_tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *".,!?", "##ing", "the"]
CONFIG = BertConfig(
    vocab_size=41,  # more than the tokenizer has, as published models round up
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=12,
)
STILL = BertConfig(
    vocab_size=53,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=40,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=17,
)
"""Nothing is dropped: what is taught twice comes out alike."""


def scatter(model: nn.Module, std: float, noise: float, seed: int = 0) -> None:
    """Make every number of a model random, biases and norms too, wide enough that it matters."""
    chance = torch.Generator().manual_seed(seed)
    initialize(model, std, chance)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=chance) * noise)


def write_model(
    folder: Path,
    objectives: Sequence[str],
    config: BertConfig | GptConfig | TransformerConfig = CONFIG,
    *,
    tasks: Mapping[str, TaskConfig] | None = None,
    vocabulary: Sequence[str] = VOCABULARY,
    seed: int = 0,
    std: float = 0.1,
    noise: float = 0.05,
) -> Path:
    """A folder of random weights; its tokenizer stands in `FOLDER-tokenizer` beside it."""
    folder.mkdir(parents=True)
    learner = make_learner(config, objectives, tasks or {})
    scatter(learner, std, noise, seed)
    tokenizer = folder.parent / f"{folder.name}-tokenizer"
    tokenizer.mkdir()
    make_tokenizer(list(vocabulary)).save(tokenizer)
    save(folder, learner, tokenizer, "", tasks=tasks)
    return folder
