"""Answers out of layers, one class a kind of question; what `engine.Engine` calls for a batch.

Everything that judges stands in `inference` and `tasks`; here the vectors of a batch of many
callers are handed to it.

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
from bertwright.inference.embed import Embedder
from bertwright.inference.encode import Positions, Tokenized, positions_in
from bertwright.inference.fill import Blanks, predict_blanks
from bertwright.inference.next_sentence import predict_pairs
from bertwright.models.encoder import Encoded, HasAttentionMaps
from bertwright.objectives.labelled import Head
from bertwright.serve.engine import Engine, Part, Work
from bertwright.tasks.predict import Window, predict_encoded
from bertwright.tasks.predictions import Prediction
from bertwright.tasks.task_data import joined


@dataclass(frozen=True)
class Vectors:
    """A vector a text; a work's data are the starts of its windows."""

    engine: Engine
    config: VectorConfig

    @property
    def layers(self) -> tuple[int, ...]:
        """See `Reader`."""
        return self._maker.layers

    def places(self, work: Work) -> Positions | None:
        """See `Reader`."""
        return self._maker.positions(_tokenized([work]))

    def read(self, works: Sequence[Work], part: Part) -> Sequence[Float32s]:
        """A float32 `[W]` for each."""
        return list(self._maker.pool_batches(_tokenized(works), [self._batch(part)]))

    @cached_property
    def _maker(self) -> Embedder:
        return self.engine.maker(self.config)

    def _batch(self, part: Part) -> LayerBatch:
        layers = [part.layers[number] for number in self.layers]
        return LayerBatch(part.rows, part.sequences, layers)


class Tokens(Vectors):
    """A vector a token; windows of a text are put together."""

    def places(self, work: Work) -> None:
        """See `Reader`."""

    def read(self, works: Sequence[Work], part: Part) -> Sequence[Float32s]:
        """A float32 `[T, W]` for each."""
        return self._maker.join_batches(_tokenized(works), [self._batch(part)])


@dataclass(frozen=True)
class Fill:
    """The likeliest tokens of blanks; a work's data are its `Blanks` and how many are asked."""

    engine: Engine

    @property
    def layers(self) -> tuple[int, ...]:
        """See `Reader`."""
        return (self.engine.top,)

    def places(self, work: Work) -> Positions:
        """See `Reader`: the blanks."""
        blanks: Blanks = work.data[0]
        return blanks.positions

    def read(self, works: Sequence[Work], part: Part) -> Sequence[Any]:
        """A list of lists of (token, probability) for each."""
        own = part.take(sorted(part.rows))
        places = [each for work in works for each in self.places(work)]
        x = own.layers[self.engine.top][positions_in(own.rows, own.sequences, places)].float()
        of_works = torch.split(x, [sum(map(len, self.places(work))) for work in works])
        return [
            predict_blanks(self.engine.runner, blanks, work.data[1])
            for work, blanks in zip(works, of_works, strict=True)
        ]


@dataclass(frozen=True)
class Pairs:
    """Whether one text follows another."""

    engine: Engine

    @property
    def layers(self) -> tuple[int, ...]:
        """See `Reader`."""
        return (self.engine.top,)

    def places(self, work: Work) -> Positions:
        """See `Reader`: [CLS], for the pooler."""
        return [(0,)]

    def read(self, works: Sequence[Work], part: Part) -> Sequence[float]:
        """A probability for each."""
        first = part.layers[self.engine.top][part.sequences.first].float()
        pooler = self.engine.runner.encoder.pooler
        assert pooler is not None
        pooled = pooler(first)
        found = predict_pairs(self.engine.runner, pooled)
        by_number = dict(zip(part.rows, found, strict=True))
        return [by_number[number] for number in range(len(works))]


@dataclass(frozen=True)
class Task:
    """What a task head says; a work's data are its `TaskData`."""

    engine: Engine
    name: str

    @property
    def layers(self) -> tuple[int, ...]:
        """See `Reader`."""
        asked = self._head.layers
        return (self.engine.top,) if asked is None else tuple(range(max(asked) + 1))

    def places(self, work: Work) -> Positions | None:
        """See `Reader`: [CLS], if the head reads the pooler alone."""
        head = self._head
        return [(0,)] * len(work.ids) if head.reads_pooled else None

    @property
    def _head(self) -> Head:
        head = self.engine.runner.learner.objectives[self.name]
        assert isinstance(head, Head)
        return head

    def read(self, works: Sequence[Work], part: Part) -> Sequence[Prediction]:
        """A prediction for each."""
        data = joined([work.data for work in works])
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
class Attention:
    """Attention maps of one layer; a work has one sequence."""

    engine: Engine
    numbers: tuple[int, ...]
    """Layers, from 1."""

    @property
    def layers(self) -> tuple[int, ...]:
        """See `Reader`: what each layer reads is the one below."""
        return tuple(number - 1 for number in self.numbers)

    def places(self, work: Work) -> None:
        """See `Reader`."""

    def read(self, works: Sequence[Work], part: Part) -> Sequence[Any]:
        """Float32 `[layers, A, T, T]` for each."""
        encoder = cast(HasAttentionMaps, self.engine.runner.encoder)
        found = []
        bounds = part.sequences.offsets
        places = {number: place for place, number in enumerate(part.rows)}
        for number in range(len(works)):
            start, stop = bounds[places[number]], bounds[places[number] + 1]
            maps = [
                encoder.attention_map(n, part.layers[n - 1][start:stop].float())
                for n in self.numbers
            ]
            found.append(np.stack([each.cpu().numpy() for each in maps]))
        return found


def _tokenized(works: Sequence[Work]) -> Tokenized:
    """The sequences of texts, and the starts that are their data."""
    return Tokenized(
        ids=[list(ids) for work in works for ids in work.ids],
        owners=[number for number, work in enumerate(works) for _ in work.ids],
        starts=[start for work in works for start in work.data],
    )
