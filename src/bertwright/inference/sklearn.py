"""Compute vectors of texts in a transformer of scikit-learn.

    make_pipeline(BertVectors("runs/news"), LogisticRegression()).fit(texts, labels)

The model is loaded when it is first needed; clones and pickles hold only its path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from bertwright.arrays import Float32s
from bertwright.config.vectors import VectorPrecision, choose_prompt
from bertwright.errors import DataError
from bertwright.inference.encode import Text
from bertwright.inference.model import load
from bertwright.inference.vectors.embed import Embedder, layer_tuple


class BertVectors(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Transforms texts to vectors, `[n, W]` float32. Parameters that are None have the values that
    the model's folder states.
    """

    def __init__(
        self,
        model: str | Path = "",
        layers: int | Sequence[int] | None = None,
        pooling: str | None = None,
        normalize: bool | None = None,
        truncate: bool | None = None,
        precision: VectorPrecision = "fp32",
        max_length: int | None = None,
        whitening: str | Path | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        dimensions: int | None = None,
    ) -> None:
        self.model = model
        self.layers = layers
        self.pooling = pooling
        self.normalize = normalize
        self.truncate = truncate
        self.precision = precision
        self.max_length = max_length
        self.whitening = whitening
        self.prompt = prompt
        self.prompt_name = prompt_name
        self.dimensions = dimensions

    def fit(self, texts: Iterable[Text], labels: Any = None) -> BertVectors:
        """Load the model; nothing is fitted.

        Raises:
            ConfigError, DataError: as `load` and `Model.embedder`.
        """
        self.n_features_out_ = self._load().width
        return self

    def transform(self, texts: Iterable[Text]) -> Float32s:
        """Return one vector for each text or pair of a list, a column, or a table with one column.

        Raises:
            DataError: the input is a single text, has several columns, or is not text.
        """
        if isinstance(texts, str):
            raise DataError("the texts are one str; expected a list of texts and pairs")
        return self._load().embed(texts)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """Return the names of the features: `bert0`, `bert1`, ..."""
        return np.array([f"bert{number}" for number in range(self._load().width)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __getstate__(self) -> dict[str, Any]:
        """Return the parameters and what `fit` set, without the model."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_loaded", None)
        return state

    def _load(self) -> Embedder:
        layers = None if self.layers is None else layer_tuple(self.layers)
        params = {**self.get_params(), "layers": layers}
        held = getattr(self, "_loaded", None)
        if held is None or held[0] != params:
            model = load(self.model)
            config = model.vectors.over(
                layers,
                self.pooling,
                normalize=self.normalize,
                truncate=self.truncate,
                max_length=self.max_length,
                prompt=choose_prompt(model.prompts, self.prompt, self.prompt_name),
                dimensions=self.dimensions,
            )
            embedder = model.embedder(config, precision=self.precision, whitening=self.whitening)
            held = self._loaded = params, embedder
        loaded: Embedder = held[1]
        return loaded
