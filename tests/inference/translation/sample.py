"""A Transformer of random weights that translates."""

from __future__ import annotations

from pathlib import Path

import torch

from bertwright.checkpoint import checkpoint
from bertwright.models.transformer.config import TransformerConfig
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.small_runs import SPECIAL, WORDS

BEGIN, END = 2, 3
TEXTS = ["ba be", "", "do ga ke mi no pu ba", "fu", "ba be", "li li li ga"]


def make(folder: Path, room: int = 12) -> Path:
    """A small Transformer of random weights whose tokens differ from those before them."""
    make_tokenizer([*SPECIAL, *WORDS]).save(folder / "tokenizer")
    vocabulary = len(SPECIAL) + len(WORDS)
    config = TransformerConfig(vocabulary, 12, 2, 3, 20, max_position_embeddings=room)
    learner = checkpoint.make_learner(config, ["translation"])
    generator = torch.Generator().manual_seed(1)
    learner.encoder.reset_parameters(generator)
    head = learner.objectives["translation"]
    head.reset_parameters(generator)
    head.bias.data[END] = -1.0
    head.decoder.layers[-1].feed_forward_norm.weight.data.normal_(0, 2, generator=generator)
    (folder / "model").mkdir()
    checkpoint.save(folder / "model", learner, folder / "tokenizer", "a card")
    return folder / "model"
