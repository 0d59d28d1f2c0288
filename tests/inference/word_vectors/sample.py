"""Models that have a vector for words outside their vocabulary, and such words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.convert import convert
from bertwright.models.elmo.config import ElmoConfig
from bertwright.models.elmo.encoder import Elmo
from bertwright.models.word_vectors import fasttext_file
from bertwright.models.word_vectors.config import FastTextConfig
from bertwright.text.tokenizer.tokenizer import make_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cat", "sat"]
INVENTED = ["zorbled", "frobish", "quixing"]
TEXTS = ["the Zorbled cat", "frobish", "sat, quixing the frobish"]


def elmo(folder: Path, words: list[str]) -> Path:
    """A folder of an ELMo of random weights, the same ones for every vocabulary."""
    vocabulary = [*SPECIAL, *words]
    config = ElmoConfig(
        vocab_size=len(vocabulary),
        max_characters_per_token=12,
        character_size=4,
        filters=((1, 4), (2, 6), (3, 6)),
        dim=9,
        projection_dim=6,
    )
    learner = checkpoint.make_learner(config, [])
    torch.manual_seed(3)
    for name, parameter in sorted(learner.encoder.named_parameters()):
        parameter.data.normal_(0, 0.3 if "token" not in name else 0.8)
    assert isinstance(learner.encoder, Elmo)
    learner.encoder.set_tokens(vocabulary, (2, 3))
    folder.mkdir()
    make_tokenizer(vocabulary).save(folder)
    checkpoint.save(folder, learner, None, "")
    return folder


def fasttext(folder: Path) -> Path:
    """A folder of a fastText, read from the `.bin` that stays beside it."""
    config = FastTextConfig(len(WORDS), 5, buckets=70)
    rows = np.random.default_rng(0).standard_normal((len(WORDS) + 70, 5)).astype(np.float32)
    counts = np.arange(len(WORDS), 0, -1)
    path = folder.with_suffix(".bin")
    fasttext_file.write(
        path, fasttext_file.FastTextFile(config, WORDS, counts, rows, rows[: len(WORDS)])
    )
    convert(path, folder)
    return folder
