"""Texts to vectors: chosen layers, pooled over the tokens of each text.

Devlin et al. 2019, section 5.3: vectors of middle and upper layers serve as features; the second
layer from the top, averaged, is the usual choice. The encoder stops at the highest layer asked for.

Letters: n texts, W numbers of a vector, T tokens of a text, H hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertwright.config.bert import BertConfig
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError
from bertwright.inference.backends import Backend
from bertwright.inference.pieces import Pieces, Text, listed, make_pieces, token_places
from bertwright.inference.whitening import Whitening
from bertwright.nn.pooling import pool
from bertwright.progress import OnProgress, silent
from bertwright.text.tokenizer import Tokenizer

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TokenVectors:
    """A text, token by token."""

    tokens: list[str]
    offsets: list[tuple[int, int]]
    """Characters of the text each token is from; (0, 0) for [CLS] and [SEP]."""
    vectors: Floats
    """`[T, W]`"""


class VectorMaker:
    """A model that makes vectors one way."""

    def __init__(
        self,
        backend: Backend,
        tokenizer: Tokenizer,
        model: BertConfig,
        config: VectorConfig,
        whitening: Whitening | None = None,
    ) -> None:
        """Check that the model has what is asked for.

        Raises:
            ConfigError: no such layer, more tokens than positions, whitening of another width.
        """
        self.backend, self.tokenizer, self.model, self.config = backend, tokenizer, model, config
        self.whitening = whitening
        self.layers = config.numbers(model.num_hidden_layers)
        positions = model.max_position_embeddings
        self.longest = min(config.max_length or positions, positions)
        self.notes: list[str] = []
        """What was chosen or left out when it was loaded, in words."""
        self.cut = self.tokens_cut = 0
        if whitening is not None and whitening.mean.shape[0] != self._raw_width:
            raise ConfigError(
                f"the whitening is of vectors of {whitening.mean.shape[0]:,} numbers; these have "
                f"{self._raw_width:,}: fit it with the same model, --layers and --pooling"
            )

    @property
    def _raw_width(self) -> int:
        return self.config.width(*self._size)

    @property
    def _size(self) -> tuple[int, int]:
        return self.model.hidden_size, self.model.num_hidden_layers

    @property
    def _apart(self) -> VectorConfig:
        """Layers side by side, as windows are merged: the largest of a sum is no sum of largest."""
        return replace(
            self.config, layers=self.layers, pooling=self.config.pooled, combine="concat"
        )

    @property
    def width(self) -> int:
        """W"""
        return self._raw_width if self.whitening is None else self.whitening.width

    def embed(self, texts: Iterable[Text], on_progress: OnProgress = silent) -> Floats:
        """One vector a text, in order.

        A text longer than the model reads at once is read in windows, evenly filled: `mean` and
        `weighted` are over all tokens of all windows, `max` the largest over them, `cls` the mean
        of their [CLS]. Texts that are cut instead are counted in `cut`, their tokens in
        `tokens_cut`.

        Args:
            texts: n texts and pairs, or a table of one column; one text is taken as a list of one.
            on_progress: called with the tokens done.

        Returns:
            `[n, W]`.

        Raises:
            DataError: something is no text, a table has more columns, or a pair is too long.
            ConfigError: pooling is `none`: use `embed_tokens`.
        """
        if self.config.pooling == "none":
            raise ConfigError(
                "pooling none gives a vector a token, not a text; use --tokens (embed_tokens of an "
                "Embedder)"
            )
        texts = listed(texts)
        pieces, count = self._pieces(texts), len(texts)
        whole = len(pieces.ids) == count
        width = self._raw_width if whole else self._apart.width(*self._size)
        vectors = np.empty((len(pieces.ids), width), np.float32)
        done, total = 0, sum(map(len, pieces.ids))
        for rows, sequences, layers in self.backend.run(pieces.ids, pieces.types, self.layers):
            with torch.inference_mode():
                starts = [pieces.starts[row] for row in rows]
                how = self.config.pooled
                parts = [pool(layer, sequences, how, starts) for layer in layers]
                pooled = self._combine(parts) if whole else torch.cat(parts, 1)
                vectors[rows] = pooled.cpu().numpy()
            done += sequences.total
            on_progress(done, total)
        if not whole:
            merged = torch.from_numpy(self._merge(vectors, pieces, count))
            vectors = self._combine(list(merged.chunk(len(self.layers), 1))).numpy()
        return self._finish(vectors)

    def embed_tokens(self, texts: Iterable[Text]) -> list[TokenVectors]:
        """Every token's vector, windows put together again; [CLS] of the first, [SEP] of the last.

        Raises:
            DataError: as `embed`.
            ConfigError: whitening is of texts.
        """
        if self.whitening is not None:
            raise ConfigError("whitening is fitted on vectors of texts; leave it out for tokens")
        texts = listed(texts)
        pieces = self._pieces(texts)
        states: list[Floats] = [np.empty((0, 0), np.float32)] * len(pieces.ids)
        for rows, sequences, layers in self.backend.run(pieces.ids, pieces.types, self.layers):
            x = self._combine([layer.float() for layer in layers]).cpu().numpy()
            for place, row in enumerate(rows):
                states[row] = x[sequences.offsets[place] : sequences.offsets[place + 1]].copy()
        of_text: list[list[Floats]] = [[] for _ in texts]
        for owner, state in zip(pieces.owners, states, strict=True):
            of_text[owner].append(state)
        found = []
        for text, parts in zip(texts, of_text, strict=True):
            last = len(parts) - 1
            whole = np.concatenate(
                [p[bool(n) : None if n == last else -1] for n, p in enumerate(parts)]
            )
            vectors = normalized(whole) if self.config.normalize else whole
            tokens, offsets = token_places(self.tokenizer, text, len(vectors))
            found.append(TokenVectors(tokens, offsets, vectors))
        return found

    def with_config(self, config: VectorConfig) -> VectorMaker:
        """The same model, other vectors."""
        return VectorMaker(self.backend, self.tokenizer, self.model, config)

    def _pieces(self, texts: Sequence[Text]) -> Pieces:
        paired = self.model.type_vocab_size > 1
        pieces = make_pieces(self.tokenizer, texts, self.longest, self.config.truncate, paired)
        self.cut += pieces.cut
        self.tokens_cut += pieces.tokens_cut
        return pieces

    def _combine(self, parts: list[Tensor]) -> Tensor:
        if self.config.joined == "concat" or len(parts) == 1:
            return torch.cat(parts, 1)
        total = torch.stack(parts).sum(0)
        return total / len(parts) if self.config.joined == "mean" else total

    def _merge(self, vectors: Floats, pieces: Pieces, count: int) -> Floats:
        """The windows of each text as one vector, layers still side by side."""
        how = self.config.pooled
        starts = np.searchsorted(pieces.owners, np.arange(count))
        lengths = np.array([len(ids) for ids in pieces.ids], np.float64)
        if how == "weighted":
            offsets = np.array(pieces.starts, np.float64)
            lengths = lengths * offsets + lengths * (lengths + 1) / 2
        weights = np.ones_like(lengths) if how == "cls" else lengths
        total = np.add.reduceat(weights, starts)[:, None]
        mean = np.add.reduceat(vectors * weights[:, None], starts, axis=0) / total
        if how in ("max", "mean-max"):
            largest = np.maximum.reduceat(vectors, starts, axis=0)
            if how == "max":
                return largest
            hidden = self.model.hidden_size
            halves = np.arange(vectors.shape[1]) // hidden % 2 == 0
            mean = np.where(halves, mean, largest)
        return mean.astype(np.float32)

    def _finish(self, vectors: Floats) -> Floats:
        if self.whitening is not None:
            vectors = self.whitening(vectors)
        return normalized(vectors) if self.config.normalize else vectors

    def without_finish(self) -> VectorMaker:
        """The same vectors, neither whitened nor scaled: what whitening is fitted on."""
        return self.with_config(replace(self.config, normalize=False))


def layer_tuple(layers: int | Sequence[int]) -> tuple[int, ...]:
    """One layer or several, as `VectorConfig` has them; it judges what they are."""
    several = isinstance(layers, Iterable) and not isinstance(layers, str)
    return tuple(layers) if several else (layers,)  # type: ignore[arg-type, return-value]


def normalized(vectors: Floats) -> Floats:
    """Rows scaled to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Floats = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return scaled
