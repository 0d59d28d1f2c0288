"""Models of random weights with a vocabulary of four words."""

from __future__ import annotations

from pathlib import Path

import torch

from bertwright.checkpoint import checkpoint
from bertwright.models.awd_lstm.config import AwdLstmConfig
from bertwright.models.elmo.config import ElmoConfig
from bertwright.text.tokenizer.tokenizer import make_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cat", "dog", "sat"]
ELMO = ElmoConfig(
    vocab_size=9, character_size=4, filters=((1, 4), (2, 5)), dim=7, projection_dim=3, n_layers=2
)
LSTM = AwdLstmConfig(vocab_size=9, embedding_size=6, hidden_size=7, num_hidden_layers=2)


def write(folder: Path, config: object) -> Path:
    """A folder of random weights with a tokenizer of BERT's special tokens."""
    folder.mkdir()
    make_tokenizer([*SPECIAL, *WORDS]).save(folder)
    learner = checkpoint.make_learner(config, [])
    learner.encoder.reset_parameters(torch.Generator().manual_seed(1))
    if isinstance(config, ElmoConfig):
        learner.encoder.set_tokens([*SPECIAL, *WORDS], (2, 3))  # type: ignore[operator]
    checkpoint.save(folder, learner, None, "")
    return folder
