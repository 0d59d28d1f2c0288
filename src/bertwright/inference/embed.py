"""Turn texts into vectors: chosen layers, pooled over the tokens of each text.

Devlin et al. 2019, section 5.3: vectors of middle and upper layers serve as features; the second
layer from the top, averaged, is the usual choice. The encoder stops at the highest layer asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from bertwright.errors import ConfigError, DataError
from bertwright.inference.runner import Runner, windows
from bertwright.nn.pooling import Pooling, check_pooling, pool
from bertwright.progress import OnProgress, silent

Floats = npt.NDArray[np.float32]


def embed(
    runner: Runner,
    texts: Sequence[str],
    layers: Sequence[int] = (-2,),
    pooling: Pooling = "mean",
    normalize: bool = False,
    on_progress: OnProgress = silent,
) -> Floats:
    """One vector a text.

    A text longer than the model's positions is read in windows, evenly filled: `mean` is the mean
    over all tokens of all windows, `max` the largest over them, `cls` the mean of their [CLS].

    Args:
        runner: a model.
        texts: n texts.
        layers: 0 is the embeddings, 1 to L the layers, negative from the top; several are joined.
        pooling: `mean`, `max` or `cls`.
        normalize: scale every vector to length 1.
        on_progress: called with the tokens done.

    Returns:
        `[n, H]`, or `[n, len(layers) H]`, float32.

    Raises:
        ConfigError: no such layer or pooling.
    """
    check_pooling(pooling)
    chosen = layer_numbers(layers, runner.config.num_hidden_layers)
    pieces, owners = _pieces(runner, texts)
    width = len(chosen) * runner.config.hidden_size
    vectors = np.empty((len(pieces), width), np.float32)
    for rows, encoded in runner.run(pieces, None, max(chosen), True, on_progress):
        with torch.inference_mode():
            pooled = [pool(encoded.layers[n], encoded.sequences, pooling) for n in chosen]
            vectors[rows] = torch.cat(pooled, 1).cpu().numpy()
    if len(pieces) > len(texts):
        weights = [len(piece) if pooling == "mean" else 1 for piece in pieces]
        vectors = _merge(vectors, owners, np.array(weights, np.float32), pooling, len(texts))
    if normalize:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(lengths, np.finfo(np.float32).tiny)
    return vectors


def layer_numbers(layers: Sequence[int], count: int) -> list[int]:
    """Layers counted from the embeddings, 0 to L.

    Raises:
        ConfigError: none, or one that the model has not.
    """
    if not layers:
        raise ConfigError("layers is empty; name one or more, as -2")
    for layer in layers:
        if not -count - 1 <= layer <= count:
            raise ConfigError(
                f"no layer {layer}: this model has 0 (the embeddings) to {count}, or from the top "
                f"-1 to {-count - 1}"
            )
    return [layer % (count + 1) for layer in layers]


def bare_ids(runner: Runner, texts: Sequence[str]) -> list[list[int]]:
    """The ids of texts without [CLS] and [SEP]; special tokens written in a text are themselves.

    Raises:
        DataError: one of `texts` is no text.
    """
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {number} is of type {type(text).__name__}; expected str")
    return runner.tokenizer.encode_bare_ids(texts)


def _pieces(runner: Runner, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
    """Sequences with [CLS] and [SEP], and which text each is of."""
    cls, sep = runner.tokenizer.cls_id, runner.tokenizer.sep_id
    pieces, owners = [], []
    for number, ids in enumerate(bare_ids(runner, texts)):
        for start, stop in windows(len(ids), runner.room):
            pieces.append([cls, *ids[start:stop], sep])
            owners.append(number)
    return pieces, owners


def _merge(vectors: Floats, owners: list[int], weights: Floats, pooling: str, n: int) -> Floats:
    """The windows of each text as one vector; `owners` rise."""
    starts = np.searchsorted(owners, np.arange(n))
    if pooling == "max":
        merged = np.maximum.reduceat(vectors, starts, axis=0)
    else:
        merged = np.add.reduceat(vectors * weights[:, None], starts, axis=0)
        merged = merged / np.add.reduceat(weights, starts)[:, None]
    return merged.astype(np.float32, copy=False)
