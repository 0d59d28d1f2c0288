"""Compute vectors of texts: the chosen layers, pooled over the tokens of each text.

The vectors of middle and upper layers serve as features (Devlin et al. 2019, section 5.3); the
usual choice is the mean of the second layer from the top. Layers above the highest chosen one are
not computed.

Letters: n texts, W the width of a vector, T tokens of a text, H hidden, N tokens and B sequences of
a batch, P poolings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from bertwright.arrays import Float32s, Int64s
from bertwright.checkpoint.sentence_transformers.dense import DenseLayer
from bertwright.config.vectors import VectorConfig, choose_prompt
from bertwright.errors import ConfigError
from bertwright.inference.backends.plain import Backend, LayerBatch
from bertwright.inference.encode import (
    Positions,
    Text,
    Tokenized,
    join_windows,
    kept_tokens,
    listed,
    parts_of,
    tokenize,
)
from bertwright.inference.vectors.whitening import Whitening
from bertwright.nn.encoder import EncoderSpec
from bertwright.nn.features import Inside, pool
from bertwright.nn.finite import require_finite
from bertwright.nn.sequences import Sequences
from bertwright.progress import OnProgress, silent
from bertwright.text.framing import Framing
from bertwright.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenVectors:
    """The vectors of a text's tokens."""

    tokens: list[str]
    offsets: list[tuple[int, int]]
    """The start and end of each token in the text, in characters; (0, 0) for special tokens."""
    vectors: Float32s
    """`[T, W]`"""


def frame_of(spec: EncoderSpec, framing: Framing) -> tuple[int, int]:
    """Return how many tokens at the start and at the end of a sequence are left out of averages,
    because their vectors were not trained.
    """
    begin = 0 if spec.averages_begin else len(framing.begin)
    # GPT-2 has one token for both, and reads it at the start
    is_trained = spec.averages_end or (spec.averages_begin and framing.end == framing.begin)
    return begin, 0 if is_trained else len(framing.end)


def reads_words(spec: EncoderSpec, tokenizer: Tokenizer) -> bool:
    """Return whether the model's tokens are words, so that a text may have unknown ones.

    This holds for static vectors, and for models that were converted from a file of words.
    """
    return spec.depth == 0 or tokenizer.file_words is not None


class Embedder:
    """Computes vectors of texts with one configuration; see `Model.embedder`."""

    def __init__(
        self,
        backend: Backend,
        tokenizer: Tokenizer,
        spec: EncoderSpec,
        config: VectorConfig,
        whitening: Whitening | None = None,
        dense: Sequence[DenseLayer] = (),
        prompts: Mapping[str, str] | None = None,
    ) -> None:
        """Check that the model can compute the configured vectors.

        Args:
            backend: the backend that computes the layers.
            tokenizer: the tokenizer of the model.
            spec: the specification of the encoder.
            config: the layers, the pooling, and how pooled vectors are transformed.
            whitening: a whitening that was fitted on vectors of `config`.
            dense: the dense layers that are applied to pooled vectors if `config.dense` is not 0.
            prompts: the prompts of the model's folder, by name.

        Raises:
            ConfigError: the model has no such layer, a vector has fewer dimensions than requested,
                or the whitening or the dense layers have another width.
        """
        spec.require_vectors()
        self.backend, self.tokenizer, self.spec, self.config = backend, tokenizer, spec, config
        self.whitening, self.prompts = whitening, dict(prompts or {})
        self.dense = tuple(dense) if config.dense else ()
        self.layers = config.numbers(spec.depth)
        bounds = [each for each in (config.max_length, spec.max_length) if each is not None]
        self.longest = min(bounds, default=None)
        """The most tokens of a sequence; None: no limit."""
        self.frame = frame_of(spec, tokenizer.framing)
        self.skips_unknown = not spec.averages_unknown and tokenizer.file_words is None
        """Whether unknown words are left out of averages."""
        self.notes: list[str] = []
        """Messages for the user about the backend, such as its agreement with float32."""
        self.truncated = self.tokens_truncated = 0
        """The number of texts truncated so far, and the number of tokens left out of them."""
        self.counts_words = reads_words(spec, tokenizer)
        """Whether the model's tokens are words, so that unknown words are counted."""
        self.words = self.unknown = 0
        """If `counts_words` is true, the number of words read so far, and how many are unknown."""
        widths = [config.pooled_width(spec.widths)]
        widths += [layer.dense.out_features for layer in self.dense]
        taken = [layer.dense.in_features for layer in self.dense]
        if taken != widths[:-1] or (config.dense and [config.dense] != widths[1:][-1:]):
            raise ConfigError(
                f"dense is {config.dense}: the model's dense layers take {taken} numbers and give "
                f"{widths[1:]}, and these vectors have {widths[0]:,}; use 0 to leave them out"
            )
        width = config.width(spec.widths)
        if whitening is not None and whitening.mean.shape[0] != width:
            raise ConfigError(
                f"the whitening is of vectors of {whitening.mean.shape[0]:,} numbers; these have "
                f"{width:,}: fit it with the same model, --layers, --pooling and --dimensions"
            )
        self.width = width if whitening is None else whitening.width
        """W, the width of the vectors of texts."""

    @property
    def _parts(self) -> list[tuple[str, int]]:
        """The pooling and the width of each part of a pooled vector, in order."""
        layers = self.layers[-1:] if self.config.averages_layers else self.layers
        return [(mode, self.spec.widths[n]) for n in layers for mode in self.config.pooled]

    def with_config(self, config: VectorConfig) -> Embedder:
        """Return an embedder of the same model for another configuration, without whitening."""
        given = self.backend, self.tokenizer, self.spec, config
        return Embedder(*given, dense=self.dense, prompts=self.prompts)

    def raw(self) -> Embedder:
        """Return an embedder of the same vectors without whitening and without scaling to length 1.

        A whitening is fitted on such vectors.
        """
        if self.whitening is None and not self.config.normalize:
            return self
        return self.with_config(replace(self.config, normalize=False))

    def describe_empty(self) -> str:
        """Return a description of how a text without words is embedded: the tokens that are read
        for it, or that its vector is zeros.

        A blank text may have words, because a tokenizer may have tokens for blanks.
        """
        prompt = self.config.prompt
        (ids,) = tokenize(self.tokenizer, with_prompt(prompt, [""]), self.longest, True).ids
        averaged = ids[self.frame[0] : len(ids) - self.frame[1]]
        if self.skips_unknown:
            averaged = [token for token in averaged if token != self.tokenizer.unk_id]
        if not averaged and {"cls", "last", "none"}.isdisjoint(self.config.pooled):
            changed = bool(self.dense) or self.whitening is not None
            before = " before dense layers and whitening" if changed else ""
            return f"a text without words has no token to pool and becomes zeros{before}"
        return f"a text without words is read as {' '.join(self.tokenizer.tokens_of(ids))}"

    def embed(
        self,
        texts: Iterable[Text],
        on_progress: OnProgress = silent,
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> Float32s:
        """Return one vector for each text, in order.

        A text that is longer than the model reads at once is read in evenly filled windows. The
        poolings `mean`, `mean-sqrt` and `weighted` are computed over all tokens of all windows, and
        `max` is the maximum over them; `cls` and `last` are averaged over the windows. A prompt is
        read in the first window only. If long texts are truncated instead, `truncated` counts them
        and `tokens_truncated` counts the tokens that were left out.

        Args:
            texts: n texts and pairs, or a table with one column; a single text is read as a list of
                one text.
            on_progress: called with the number of tokens done.
            prompt: text to put before every text, or before the first of a pair; "" for none; None:
                the prompt of the configuration.
            prompt_name: the name of one of the folder's prompts, in place of its text.

        Returns:
            `[n, W]`.

        Raises:
            DataError: the inputs are not texts, a table has several columns, or a pair is too long.
            ConfigError: pooling is `none` (use `embed_tokens`), or the folder has no such prompt.
        """
        chosen = choose_prompt(self.prompts, prompt, prompt_name)
        if chosen is not None and chosen != self.config.prompt:
            other = copy(self)
            other.config = replace(self.config, prompt=chosen)
            vectors = other.embed(texts, on_progress)
            self.truncated, self.tokens_truncated = other.truncated, other.tokens_truncated
            self.words, self.unknown = other.words, other.unknown
            return vectors
        if self.config.pooling == "none":
            raise ConfigError(
                "pooling none gives a vector per token, not per text; use embed_tokens of an "
                "Embedder"
            )
        tokenized = self._tokenize(with_prompt(self.config.prompt, listed(texts)))
        batches = self.backend.run(
            tokenized.ids, tokenized.segments, self.layers, self.positions(tokenized)
        )
        return self.pool_batches(tokenized, batches, on_progress)

    def positions(self, tokenized: Tokenized) -> Positions | None:
        """Return the positions of each sequence that `pool_batches` reads; None: all of them."""
        modes = self.config.pooled
        if not {"cls", "last"}.issuperset(modes):
            return None
        return [[0 if mode == "cls" else len(ids) - 1 for mode in modes] for ids in tokenized.ids]

    def pool_batches(
        self,
        tokenized: Tokenized,
        batches: Iterable[LayerBatch],
        on_progress: OnProgress = silent,
    ) -> Float32s:
        """Return one vector for each text from layers that a backend computed; see `embed`."""
        width = self.config.pooled_width(self.spec.widths)
        vectors = np.empty((len(tokenized.ids), width), np.float32)
        counts = np.array([len(ids) for ids in tokenized.ids])
        done, total = 0, sum(map(len, tokenized.ids))
        waiting: list[tuple[list[int], Tensor]] = []  # copies that a GPU has not finished
        for rows, sequences, layers in batches:
            done += sequences.total
            with torch.inference_mode():
                of_rows = [tokenized.starts[row] for row in rows]
                inside = self._inside(sequences, [tokenized.ids[row] for row in rows])
                if inside is not None:
                    counts[rows] = inside.counts
                parts = [self._pool(layer, sequences, of_rows, inside) for layer in layers]
                pooled = self._combine(parts)
                if pooled.is_cuda:
                    waiting.append((rows, pooled.to("cpu", non_blocking=True)))
                else:
                    vectors[rows] = pooled.numpy()
            on_progress(done, total)
        if waiting:
            torch.cuda.synchronize()
        for rows, copied in waiting:
            vectors[rows] = copied.numpy()
        if len(tokenized.ids) > len(set(tokenized.owners)):
            starts = np.array(tokenized.starts)
            vectors = self._merge(vectors, np.array(tokenized.owners), counts, starts)
        return self._finish(vectors)

    def _inside(self, sequences: Sequences, ids: list[list[int]]) -> Inside | None:
        """Return the tokens of a batch that are averaged; None: all of them."""
        if {"cls", "last"}.issuperset(self.config.pooled):
            return None
        averaged = None
        if self.skips_unknown:
            flat = np.fromiter(chain.from_iterable(ids), np.int64, sequences.total)
            averaged = flat != self.tokenizer.unk_id
        elif self.frame == (0, 0):
            return None
        return Inside(sequences, self.frame, averaged)

    def _pool(
        self, layer: Tensor, sequences: Sequences, starts: Sequence[int], inside: Inside | None
    ) -> Tensor:
        """Return the pooled vectors of a batch, `[N, H]` -> `[B, P H]`.

        A sequence without a token to average becomes zeros.
        """
        if inside is None:
            return pool(layer, sequences, "+".join(self.config.pooled), starts)
        parts = []
        for mode in self.config.pooled:
            if mode in ("cls", "last"):
                parts.append(pool(layer, sequences, mode))
                continue
            part = pool(inside(layer), inside.sequences, mode, starts)
            if inside.empty:
                part[inside.empty] = 0
            parts.append(part)
        return torch.cat(parts, 1)

    def embed_tokens(self, texts: Iterable[Text]) -> list[TokenVectors]:
        """Return the vector of every token of each text.

        The windows of a text are joined; only the special tokens at the start of the first window
        and at the end of the last one are kept. The prompt is read with each text, but its tokens
        are left out of the result. Dense layers and `dimensions` are not applied, because they are
        for vectors of texts.

        Raises:
            DataError: as `embed`.
            ConfigError: there is a whitening, which is for vectors of texts.
        """
        if self.whitening is not None:
            raise ConfigError(
                "a whitening is fitted on vectors of texts, and pooling none gives vectors of "
                "tokens; leave one of them out"
            )
        texts, prompt = listed(texts), self.config.prompt
        tokenized = self._tokenize(with_prompt(prompt, texts))
        batches = self.backend.run(tokenized.ids, tokenized.segments, self.layers)
        of_texts = []
        for text, vectors in zip(texts, self.join_batches(tokenized, batches), strict=True):
            tokens, offsets, rows = kept_tokens(self.tokenizer, text, len(vectors), prompt)
            if len(rows) < len(vectors):  # the prompt's tokens are left out
                vectors = vectors[rows]
            of_texts.append(TokenVectors(tokens, offsets, vectors))
        return of_texts

    def join_batches(self, tokenized: Tokenized, batches: Iterable[LayerBatch]) -> list[Float32s]:
        """Return the vectors of all tokens of each text, including the prompt's, `[T, W]`."""
        combined = (
            (rows, sequences, self._combine([x.float() for x in layers]).cpu().numpy())
            for rows, sequences, layers in batches
        )
        vectors = join_windows(self.tokenizer.framing, tokenized, combined)
        for each in vectors:
            require_finite(each, "vectors")
        return [normalized(each) for each in vectors] if self.config.normalize else vectors

    def _tokenize(self, texts: Sequence[Text]) -> Tokenized:
        tokenized = tokenize(
            self.tokenizer, texts, self.longest, self.config.truncate, self.spec.reads_pairs
        )
        self.truncated += len(tokenized.left_out)
        self.tokens_truncated += sum(tokenized.left_out.values())
        if self.counts_words:
            special = self.tokenizer.framing.special_tokens()
            self.words += sum(map(len, tokenized.ids)) - special * len(tokenized.ids)
            self.unknown += sum(ids.count(self.tokenizer.unk_id) for ids in tokenized.ids)
        return tokenized

    def _combine(self, parts: list[Tensor]) -> Tensor:
        """Return the vectors of the layers in one tensor."""
        if self.config.averages_layers:
            return torch.stack(parts).mean(0)
        return torch.cat(parts, 1)

    def _merge(
        self,
        vectors: Float32s,
        owners: Int64s,
        lengths: Int64s,
        starts: Int64s,
    ) -> Float32s:
        """Merge the windows of each text into one vector.

        Args:
            vectors: the pooled vectors of the windows, `[windows, W]`.
            owners: the index of the text of each window, in ascending order.
            lengths: the number of tokens of each window that are averaged.
            starts: the number of tokens of the text before each window.
        """
        first = np.flatnonzero(np.diff(owners, prepend=-1))
        exact = lengths.astype(np.float64)
        of_ends = np.ones_like(exact)
        weights = {"cls": of_ends, "last": of_ends, "mean": exact, "mean-sqrt": np.sqrt(exact)}
        weights["weighted"] = exact * starts + exact * (exact + 1) / 2
        modes, widths = zip(*self._parts, strict=True)
        parts = np.split(vectors, np.cumsum(widths)[:-1], axis=1)
        merged = []
        for mode, part in zip(modes, parts, strict=True):
            if mode == "max":
                known = np.where(lengths[:, None] > 0, part, -np.inf)
                largest = np.maximum.reduceat(known, first, axis=0)
                merged.append(np.where(largest == -np.inf, 0, largest).astype(np.float32))
                continue
            total = np.add.reduceat(part * weights[mode][:, None], first, axis=0)
            norm = np.add.reduceat(exact if mode == "mean-sqrt" else weights[mode], first)
            norm = np.sqrt(norm) if mode == "mean-sqrt" else norm
            norm = np.where(norm > 0, norm, 1)  # 0 if no token of a text is averaged
            merged.append((total / norm[:, None]).astype(np.float32))
        return np.concatenate(merged, axis=1)

    def _finish(self, vectors: Float32s) -> Float32s:
        for layer in self.dense:
            vectors = layer(torch.from_numpy(vectors)).numpy()
        vectors = vectors[:, : self.config.dimensions]
        if self.whitening is not None:
            vectors = self.whitening(vectors)
        require_finite(vectors, "vectors")
        return normalized(vectors) if self.config.normalize else np.ascontiguousarray(vectors)


def with_prompt(prompt: str, texts: list[Text]) -> list[Text]:
    """Return the texts with the prompt put before each text, or before the first text of a pair.

    Raises:
        DataError: an input is neither a text nor a pair.
    """
    if not prompt:
        return texts
    prompted: list[Text] = []
    for number, text in enumerate(texts):
        first, *second = parts_of(number, text)
        prompted.append((prompt + first, second[0]) if second else prompt + first)
    return prompted


def layer_tuple(layers: int | Sequence[int]) -> tuple[int, ...]:
    """Return one layer, or several, as a tuple for `VectorConfig`, which checks it."""
    several = isinstance(layers, Iterable) and not isinstance(layers, str)
    return tuple(layers) if several else (layers,)  # type: ignore[arg-type, return-value]


def truncation(longest: int | None, texts: int, tokens: int) -> str:
    """Return the message that so many texts lost so many tokens beyond the longest sequence."""
    return f"texts truncated to {longest} tokens: {texts:,} ({tokens:,} tokens left out)"


def normalized(vectors: Float32s) -> Float32s:
    """Return the rows scaled to length 1; a row of zeros stays zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Float32s = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return scaled
