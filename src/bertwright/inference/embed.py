"""Turn texts into vectors with a loaded model: what `Model.embed` does (`vector_maker`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from bertwright.config.vectors import Combine, Pooling, VectorConfig
from bertwright.inference.backends import PlainBackend
from bertwright.inference.pieces import Text
from bertwright.inference.runner import Runner
from bertwright.inference.vector_maker import VectorMaker, layer_tuple
from bertwright.progress import OnProgress, silent

Floats = npt.NDArray[np.float32]


def embed(
    runner: Runner,
    texts: Iterable[Text],
    layers: int | Sequence[int] = (-2,),
    pooling: Pooling = "mean",
    normalize: bool = False,
    on_progress: OnProgress = silent,
    combine: Combine = "concat",
) -> Floats:
    """One vector a text or pair, by the model as it is loaded.

    Args:
        runner: a model.
        texts: n texts and pairs.
        layers: one or several: 0 is the embeddings, 1 to L the layers, negative from the top.
        pooling: how the tokens become one vector.
        normalize: scale every vector to length 1.
        on_progress: called with the tokens done.
        combine: what becomes of several layers.

    Returns:
        `[n, W]`, float32: W is H, twice as much for `mean-max`, so often as layers are joined.

    Raises:
        ConfigError: no such layer or pooling.
        DataError: something is no text, or a pair is too long.
    """
    config = VectorConfig(layer_tuple(layers), combine, pooling, normalize)
    backend = PlainBackend(runner.encoder, runner.batch_tokens)
    return VectorMaker(backend, runner.tokenizer, runner.config, config).embed(texts, on_progress)
