"""A loaded model that computes batches: one pass of the encoder serves outputs of all kinds.

A batch may have vectors, mask positions, tags and attention maps side by side. Their sequences are
laid end to end. The encoder computes up to the highest layer that any of them needs, and that layer
only at the tokens that are read; then each output reads its rows.

Letters: N tokens of a batch, H hidden, L layers.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertwright.arrays import Float32s
from bertwright.checkpoint.find import CHECKPOINTS
from bertwright.config.vectors import VectorConfig
from bertwright.errors import BertwrightError, ConfigError
from bertwright.inference.backends.exported import ExportedEncoder
from bertwright.inference.backends.packed import PackedBackend
from bertwright.inference.backends.plain import Backend, PlainBackend
from bertwright.inference.encode import Positions
from bertwright.inference.generate import generates
from bertwright.inference.model import Model
from bertwright.inference.translation.translate import translates
from bertwright.inference.vectors.embed import Embedder, reads_words
from bertwright.nn.encoder import HasAttentionMaps
from bertwright.nn.finite import NotFinite
from bertwright.nn.sequences import Sequences
from bertwright.serve.engine.batching import Batcher
from bertwright.serve.engine.folder import examples_of, weights_digest
from bertwright.serve.engine.generation.flight import TOKENS, Flight
from bertwright.serve.engine.generation.way import Way
from bertwright.tasks.catalogue import kinds_that

CONTINUATION = "continuation"
"""The kind of head (`Engine.head_kinds`) of a model that continues prompts."""
TRANSLATION = "translation"
"""The kind of head of a model that translates."""
WHOLE = 1 << 40
"""The maximum number of tokens of a backend's own batches: no limit, as the batcher makes them."""
MOST_FURTHER_WORDS = 1 << 20
"""The maximum number of words outside a vocabulary whose spelling is kept, about 200 MB; far more
than the queues hold."""
CHECK = ("a", "the first of two", "one that is a little longer than the others, and has a comma")
EXACT = 1e-4
"""The largest distance of vectors relative to their length: more than rounding in float32 gives,
and less than any mistake."""
ROUGH = 0.3
"""The largest such distance for short texts in bfloat16 or 8 bits."""


@dataclass(eq=False, slots=True)
class RequestItem:
    """One text of a request: its sequences, and the output that is computed from them."""

    output: Output
    ids: Sequence[Sequence[int]]
    segments: Sequence[Sequence[int]] | None
    data: Any = None
    """What the output needs to know of the text."""

    @property
    def tokens(self) -> int:
        """The number of tokens of all its sequences."""
        return sum(map(len, self.ids))

    def positions(self, top: int) -> Positions:
        """Return the positions of each sequence where the layer `top` of a batch is read."""
        if max(self.output.layers) < top:
            return [()] * len(self.ids)
        return self.output.positions(self) or [range(len(ids)) for ids in self.ids]


@dataclass(frozen=True)
class Output(ABC):
    """What is computed from layers. Items of equal outputs are computed together."""

    engine: Engine

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that it needs, where 0 is the embeddings; by default the highest."""
        return (self.engine.top,)

    def positions(self, item: RequestItem) -> Positions | None:
        """Return where it reads the highest of its layers, for each sequence of a text; None means
        everywhere. At other positions that layer may be undefined."""
        return None

    @abstractmethod
    def read(self, items: Sequence[RequestItem], part: Part) -> Sequence[Any]:
        """Return a result for each of the items, in order."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some sequences of a batch, end to end."""

    rows: list[int]
    """The number of each sequence, counted through the windows of the items."""
    sequences: Sequences
    layers: dict[int, Tensor]
    """Layer -> `[N, H]`; the highest layer of a batch is defined only where it is read."""

    def take(self, numbers: Sequence[int]) -> Part:
        """Return the sequences of these numbers, in this order."""
        if list(numbers) == self.rows:
            return self
        index_of = {number: index for index, number in enumerate(self.rows)}
        at = [index_of[number] for number in numbers]
        offsets = self.sequences.offsets
        index = np.concatenate([np.arange(offsets[n], offsets[n + 1]) for n in at])
        rows = torch.from_numpy(index).to(next(iter(self.layers.values())).device)
        sequences = Sequences([self.sequences.lengths[n] for n in at], self.sequences.device)
        return Part(list(numbers), sequences, {n: x[rows] for n, x in self.layers.items()})


class Engine:
    """A model that is served under a name."""

    def __init__(self, name: str, folder: str, model: Model) -> None:
        """Serve a loaded model, which makes vectors as its folder says."""
        self.name, self.folder, self.model = name, folder, model
        self.default, self.prompts, self.dense = model.vectors, model.prompts, model.dense
        self.runner, self.tokenizer, self.spec = model.runner, model.tokenizer, model.spec
        self.tokenizer.limit_time()
        if self.tokenizer.further_words is not None:
            self.tokenizer.further_words.most = MOST_FURTHER_WORDS
        self.top, self.longest = self.spec.depth, self.spec.max_length or WHOLE
        self.vector_tokens = min(self.default.max_length or self.longest, self.longest)
        """The most tokens that a vector is made from, of a text that is not read in windows."""
        assert model.opened is not None
        self.sha256 = weights_digest(model.opened, self.dense)
        self.loaded = int(time.time())
        self.examples = examples_of(model.opened.folder)
        self.damages: dict[str, str] = {}
        """Newer checkpoints of its run that were skipped: name -> what is damaged."""
        self.backend: Backend = PlainBackend(self.runner.encoder, WHOLE)
        self.precision = "fp32"
        self.generates = generates(self.runner)
        """Whether it continues prompts."""
        self.translates = translates(self.runner)
        """Whether it translates."""
        self._flights: dict[str, Flight] = {}
        self._embedders: dict[VectorConfig, Embedder] = {}
        self._table = Lock()
        """Held while the table of `nearest` is made or read."""

    def flight(self, way: Way, batcher: Batcher, on_tokens: Callable[[int], None]) -> Flight:
        """Return the running texts of a way in which it generates."""
        if way.name not in self._flights:
            memory = TOKENS if way.keeps_tokens(self.runner) else None
            make_rows = partial(way.make_rows, self.runner)
            self._flights[way.name] = Flight(make_rows, batcher, on_tokens, memory)
        return self._flights[way.name]

    def lacks(self, numbers: Iterable[int]) -> list[int]:
        """Return those of some layers that the export does not compute; none without an export."""
        encoder = self.runner.encoder
        return encoder.lacks(numbers) if isinstance(encoder, ExportedEncoder) else []

    def require_layers(self, numbers: Iterable[int]) -> None:
        """Raise ConfigError if its export does not compute one of some layers."""
        encoder = self.runner.encoder
        if isinstance(encoder, ExportedEncoder) and (missing := self.lacks(numbers)):
            given, lacks = (", ".join(map(str, each)) for each in (encoder.given, missing))
            raise ConfigError(
                f"this model is served from an export of layer {given}; it does not compute layer "
                f"{lacks}: export again with --layers {lacks}"
            )

    @property
    def checkpoint(self) -> str | None:
        """The name of the checkpoint, where the model is one of a run."""
        place = Path(self.runner.name)
        return place.name if place.parent.name == CHECKPOINTS else None

    @property
    def head_kinds(self) -> set[str]:
        """Its pre-training heads, the kinds of its tasks, and the ways in which it generates.
        Sentence vectors count as a task that trains them, wherever they were trained."""
        kinds = {*self.model.heads, *(task.kind for task in self.model.tasks.values())}
        if self.model.similarity_function is not None:
            kinds.update(kinds_that(lambda kind: kind.vectors))
        able = {CONTINUATION: self.generates, TRANSLATION: self.translates}
        return kinds - able.keys() | {way for way, does in able.items() if does}

    def reads_pairs(self, name: str) -> bool | None:
        """Return whether a task of texts was trained on pairs; None if its folder does not say."""
        task = self.model.tasks[name]
        if not task.compares_pairs:
            return None
        if task.text2_column is None and task.text_column is not None:
            return False
        return task.text2_column is not None or self.model.is_cross_encoder or None

    def embedder(self, config: VectorConfig) -> Embedder:
        """Return the embedder of a configuration, which later requests use again.

        Raises:
            ConfigError: the model cannot give them.
        """
        found = self._embedders.get(config)
        if found is None:
            if len(self._embedders) >= 64:  # kinds of vectors
                self._embedders.clear()
            given = self.backend, self.tokenizer, self.spec, config
            found = self._embedders[config] = Embedder(*given, dense=self.dense)
        return found

    def unknown_words(self, sequences: Iterable[Sequence[int]]) -> int | None:
        """Return how many of these ids stand for words that the model does not know.

        It is None for a model whose tokens are not words.
        """
        if not reads_words(self.spec, self.tokenizer):
            return None
        return sum(ids.count(self.tokenizer.unk_id) for ids in sequences)

    @property
    def attention_heads(self) -> int | None:
        """The number of attention heads of a layer; None if the encoder has no attention maps."""
        has_maps = isinstance(self.runner.encoder, HasAttentionMaps)
        return int(self.model.config.num_attention_heads) if has_maps else None

    @property
    def has_words(self) -> bool:
        """Whether it is a table with a vector for each word, whatever the sentence."""
        return self.top == 0 and self.runner.encoder.token_embedding() is not None

    def nearest(self, word: str, top: int) -> list[tuple[str, float]]:
        """Return the words with the largest cosine to a word; see `Model.most_similar`.

        The first call makes the table that all later ones read. Several threads may call it.

        Raises:
            DataError: the word has no vector.
        """
        with self._table:
            return self.model.most_similar(word, top)

    def run(self, items: Sequence[RequestItem]) -> list[Any]:
        """Return the results of the items of a batch, in order.

        Several threads may call it at once.
        """
        ids = [each for item in items for each in item.ids]
        segments = None
        if any(item.segments is not None for item in items):
            of_items = (item.segments or [[0] * len(own) for own in item.ids] for item in items)
            segments = [each for of_item in of_items for each in of_item]
        wanted = tuple(sorted({layer for item in items for layer in item.output.layers}))
        positions = [each for item in items for each in item.positions(wanted[-1])]
        everywhere = sum(map(len, positions)) == sum(map(len, ids))
        ((rows, sequences, layers),) = self.backend.run(
            ids, segments, wanted, None if everywhere else positions
        )
        whole = Part(list(rows), sequences, dict(zip(wanted, layers, strict=True)))
        ends = list(accumulate(len(item.ids) for item in items))
        groups: dict[Output, list[int]] = {}
        for number, item in enumerate(items):
            groups.setdefault(item.output, []).append(number)
        results: list[Any] = [None] * len(items)
        for output, numbers in groups.items():
            own = [n for i in numbers for n in range(ends[i] - len(items[i].ids), ends[i])]
            index = {number: at for at, number in enumerate(own)}
            part = whole.take([row for row in whole.rows if row in index])
            part = replace(part, rows=[index[row] for row in part.rows])
            with torch.inference_mode():
                found = output.read([items[i] for i in numbers], part)
            for number, result in zip(numbers, found, strict=True):
                results[number] = result
        return results

    def warm_up(self, most: int) -> None:
        """Prepare for batches of up to `most` tokens, with as many threads as the present one has,
        so that memory does not grow with every new size of batch."""
        if isinstance(self.backend, PackedBackend):
            self.backend.packed.warm_up(most)

    def self_check(self) -> None:
        """Compare the vectors of a batch of texts with those of the plain model for each text.

        Raises:
            BertwrightError: they differ, or are not finite.
        """
        config = VectorConfig((-1,), pooling="mean", truncate=True)

        def vectors(backend: Backend, texts: Sequence[str]) -> Float32s:
            return Embedder(backend, self.tokenizer, self.spec, config).embed(texts)

        plain = PlainBackend(self.runner.encoder, WHOLE)
        try:
            expected = np.concatenate([vectors(plain, [text]) for text in CHECK])
            distances = np.linalg.norm(vectors(self.backend, CHECK) - expected, axis=1)
        except NotFinite as error:
            raise BertwrightError(f"{self.folder}: {error}") from error
        largest = float(np.linalg.norm(expected, axis=1).max())
        # a table of word vectors that knows none of the words gives zeros for each text
        wrong = float(distances.max()) / (largest or 1.0)
        allowed = EXACT if self.precision == "fp32" else ROUGH
        if not wrong <= allowed:
            differ = f"they differ by {wrong:.1e}, {allowed:.0e} is allowed; not served"
            raise BertwrightError(f"{self.folder}: vectors are not the plain model's: {differ}")
