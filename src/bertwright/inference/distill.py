"""Distil an encoder into a table of token vectors, as model2vec does (Tulkens and van Dongen 2024).

Each token of the vocabulary is encoded as a text by itself. The vectors are projected onto their
principal components, and multiplied by a weight that is small for frequent tokens (smooth inverse
frequency; Arora, Liang and Ma 2017): `a / (a + p)`. The probability p of a token follows from its
rank in the vocabulary by Zipf's law, because vocabularies are sorted from frequent to rare. The
vector of a text is then a mean of rows, without any layer to compute.

Letters: V tokens, W the width of the encoder's vectors, H the width of the table's vectors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.arrays import Float32s, Float64s
from bertwright.atomic import atomic_folder, refuse_existing, refuse_source, write_manifest
from bertwright.checkpoint import checkpoint
from bertwright.errors import ConfigError
from bertwright.inference.encode import Tokenized
from bertwright.inference.model import Model, load
from bertwright.models.word_vectors.config import StaticConfig
from bertwright.progress import OnProgress, silent

SIF = 1e-4
"""a, the probability at which the weight of a token is a half; model2vec's value."""
DIMENSIONS = 256
"""The default of H."""


def distill(
    source: str | Path,
    out: Path,
    dimensions: int | None = None,
    overwrite: bool = False,
    on_progress: OnProgress = silent,
) -> Float32s:
    """Write a folder of model2vec with the token vectors of a model, and return them, `[V, H]`.

    Args:
        source: a model with layers. The vectors are those of `embed` with its defaults.
        out: the folder to write.
        dimensions: H, at most W; None: 256, or W if that is smaller.
        overwrite: replace `out` if it exists.
        on_progress: called with the number of tokens done.

    Raises:
        ConfigError: the model has no layers or no vectors, or `dimensions` is below 1 or above W.
        DataError, IntegrityError: as `load`.
    """
    if dimensions is not None and dimensions < 1:
        raise ConfigError(f"--dimensions is {dimensions}; expected 1 or more")
    refuse_source(out, Path(source), "DST")
    refuse_existing(out, overwrite, "DST")
    model = load(source)
    model.spec.require_vectors()
    if not model.spec.depth:
        raise ConfigError(
            f"{source} is a table of vectors already, without layers to distil; write its vectors "
            "by --to word2vec"
        )
    if dimensions is not None and dimensions > (width := model.embedder().width):
        raise ConfigError(f"--dimensions is {dimensions}; the vectors of {source} have {width}")
    tokenizer = model.tokenizer
    tokens = np.array(sorted(set(tokenizer.vocab.values()) - tokenizer.special_ids))
    vectors = principal(_token_vectors(model, tokens, on_progress), dimensions or DIMENSIONS)
    table = np.zeros((tokenizer.vocab_size, vectors.shape[1]), np.float32)
    table[tokens] = vectors * weights(len(tokens))[:, None]
    learner = checkpoint.make_learner(StaticConfig(*table.shape), ())
    learner.load_state_dict({"encoder.table.weight": torch.from_numpy(table)})
    card = (
        f"# {Path(source).name}, distilled\n\nToken vectors of a model that `bertwright convert "
        "--to static` distilled. The vector of a text is their mean.\n"
    )
    with atomic_folder(out, overwrite) as partial:
        tokenizer.save(partial)
        checkpoint.save(partial, learner, None, card)
        write_manifest(partial)
    return table


def _token_vectors(model: Model, tokens: Any, on_progress: OnProgress) -> Float32s:
    """Return the vector of each token `[V, W]`, read as a text by itself."""
    framing = model.tokenizer.framing
    embedder = model.embedder().raw()
    texts = Tokenized(
        ids=[framing.one([token]) for token in tokens.tolist()],
        owners=list(range(len(tokens))),
        starts=[0] * len(tokens),
    )
    batches = embedder.backend.run(texts.ids, None, embedder.layers, embedder.positions(texts))
    return embedder.pool_batches(texts, batches, on_progress)


def principal(vectors: Float32s, most: int) -> Float32s:
    """Return vectors `[V, W]` minus their mean, projected onto their first principal components:
    `[V, min(W, most)]`, the largest variance first.
    """
    centred: Float64s = vectors.astype(np.float64)
    centred -= centred.mean(0)
    _, components = np.linalg.eigh(centred.T @ centred)  # from the smallest variance up
    kept = components[:, ::-1][:, :most]
    projected: Float32s = (centred @ kept).astype(np.float32)
    return projected


def weights(count: int) -> Float32s:
    """Return the weight of each of V tokens, sorted from frequent to rare, by smooth inverse
    frequency."""
    p = 1 / (np.arange(count) + 2.0)
    p /= p.sum()
    found: Float32s = (SIF / (SIF + p)).astype(np.float32)
    return found
