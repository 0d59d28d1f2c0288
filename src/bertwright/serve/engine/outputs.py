"""Outputs of a batch, one class for each kind of request, which pass its layers to `inference` and
`tasks`.

Letters: T tokens of a text, H hidden, L layers, A attention heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, cast

import numpy as np
import torch

from bertwright.arrays import Float32s
from bertwright.config.vectors import VectorConfig
from bertwright.inference.backends.plain import LayerBatch
from bertwright.inference.encode import Positions, Tokenized, positions_in
from bertwright.inference.fill import Blanks, predict_blanks
from bertwright.inference.next_sentence import predict_pairs
from bertwright.inference.vectors.embed import Embedder
from bertwright.nn.encoder import Encoded, HasAttentionMaps
from bertwright.serve.engine.engine import Output, Part, RequestItem
from bertwright.tasks.head import Head
from bertwright.tasks.predict import Window, predict_encoded
from bertwright.tasks.predictions import Prediction
from bertwright.tasks.task_data import joined


@dataclass(frozen=True)
class Vectors(Output):
    """A vector for each text; the data of an item are the starts of its windows."""

    config: VectorConfig

    @property
    def layers(self) -> tuple[int, ...]:
        return self._embedder.layers

    def positions(self, item: RequestItem) -> Positions | None:
        return self._embedder.positions(_tokenized([item]))

    def read(self, items: Sequence[RequestItem], part: Part) -> Sequence[Float32s]:
        """Return a float32 `[W]` for each."""
        return list(self._embedder.pool_batches(_tokenized(items), [self._batch(part)]))

    @cached_property
    def _embedder(self) -> Embedder:
        return self.engine.embedder(self.config)

    def _batch(self, part: Part) -> LayerBatch:
        layers = [part.layers[number] for number in self.layers]
        return LayerBatch(part.rows, part.sequences, layers)


class Tokens(Vectors):
    """A vector for each token; the windows of a text are joined."""

    def positions(self, item: RequestItem) -> None:
        """Return None, as each token has a vector."""

    def read(self, items: Sequence[RequestItem], part: Part) -> Sequence[Float32s]:
        """Return a float32 `[T, W]` for each."""
        return self._embedder.join_batches(_tokenized(items), [self._batch(part)])


@dataclass(frozen=True)
class Fill(Output):
    """The most probable tokens of mask positions; the data of an item are its `Blanks` and how many
    tokens are wanted."""

    def positions(self, item: RequestItem) -> Positions:
        """Return the positions of the [MASK] tokens of an item."""
        blanks: Blanks = item.data[0]
        return blanks.positions

    def read(self, items: Sequence[RequestItem], part: Part) -> Sequence[Any]:
        """Return a list of lists of (token, probability) for each."""
        own = part.take(sorted(part.rows))
        positions = [each for item in items for each in self.positions(item)]
        x = own.layers[self.engine.top][positions_in(own.rows, own.sequences, positions)].float()
        of_items = torch.split(x, [sum(map(len, self.positions(item))) for item in items])
        return [
            predict_blanks(self.engine.runner, blanks, item.data[1])
            for item, blanks in zip(items, of_items, strict=True)
        ]


@dataclass(frozen=True)
class NextSentences(Output):
    """The probability that one text follows another."""

    def positions(self, item: RequestItem) -> Positions:
        """Return the position of [CLS], which the pooler reads."""
        return [(0,)]

    def read(self, items: Sequence[RequestItem], part: Part) -> Sequence[float]:
        """Return a probability for each."""
        first = part.layers[self.engine.top][part.sequences.first].float()
        pooler = self.engine.runner.encoder.pooler
        assert pooler is not None
        pooled = pooler(first)
        found = dict(zip(part.rows, predict_pairs(self.engine.runner, pooled), strict=True))
        return [found[number] for number in range(len(items))]


@dataclass(frozen=True)
class Task(Output):
    """Predictions of a task head; the data of an item are its `TaskData`."""

    name: str

    @property
    def layers(self) -> tuple[int, ...]:
        layers = self._head.layers
        return (self.engine.top,) if layers is None else tuple(range(max(layers) + 1))

    def positions(self, item: RequestItem) -> Positions | None:
        """Return the position of [CLS] if the head reads the pooler alone, else None."""
        head = self._head
        return [(0,)] * len(item.ids) if head.reads_pooled else None

    @property
    def _head(self) -> Head[Any]:
        head = self.engine.runner.learner.objectives[self.name]
        assert isinstance(head, Head)
        return head

    def read(self, items: Sequence[RequestItem], part: Part) -> Sequence[Prediction]:
        """Return a prediction for each."""
        data = joined([item.data for item in items])
        counts = [len(instance.ids) for instance in data.instances]
        starts = [0, *accumulate(counts)]

        def encode(windows: list[Window]) -> Encoded:
            own = part.take([starts[instance] + window for instance, window in windows])
            layers = {number: x.float() for number, x in own.layers.items()}
            last = layers[max(self.layers)]
            if self._head.layers is not None:
                # of a batch with others there may be more layers than this head reads
                kept = tuple(layers[number] for number in self.layers)
                return Encoded(own.sequences, last, kept)
            pooler = self.engine.runner.encoder.pooler
            pooled = None if pooler is None else pooler(last[own.sequences.first])
            return Encoded(own.sequences, last, (), pooled)

        return predict_encoded(self.engine.runner.learner, data, encode)


@dataclass(frozen=True)
class Attention(Output):
    """Attention maps of some layers; an item has one sequence."""

    numbers: tuple[int, ...]
    """Layers, counted from 1."""

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers below these, which they read."""
        return tuple(number - 1 for number in self.numbers)

    def read(self, items: Sequence[RequestItem], part: Part) -> Sequence[Any]:
        """Return a float32 `[layers, A, T, T]` for each."""
        encoder, found = cast(HasAttentionMaps, self.engine.runner.encoder), []
        for number in range(len(items)):
            own = part.take([number]).layers
            maps = [encoder.attention_map(n, own[n - 1].float()) for n in self.numbers]
            found.append(np.stack([each.cpu().numpy() for each in maps]))
        return found


def _tokenized(items: Sequence[RequestItem]) -> Tokenized:
    """Return the sequences of texts with the starts of their windows."""
    return Tokenized(
        ids=[list(ids) for item in items for ids in item.ids],
        owners=[number for number, item in enumerate(items) for _ in item.ids],
        starts=[start for item in items for start in item.data],
    )
