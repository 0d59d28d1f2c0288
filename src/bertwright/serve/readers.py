"""Answers out of layers, one class a kind of question; what `engine.Engine` calls for a batch.

Everything that judges stands in `inference` and `tasks`; here the vectors of a batch of many
callers are handed to it.

Letters: T tokens of a text, H hidden, L layers, A attention heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertwright.arrays import Float32s
from bertwright.config.vectors import VectorConfig
from bertwright.inference.attention_maps import attention_map
from bertwright.inference.backends import Found, Ids
from bertwright.inference.fill import Blanks, judge_blanks
from bertwright.inference.next_sentence import judge_pairs
from bertwright.inference.pieces import Pieces, Text
from bertwright.inference.vector_maker import VectorMaker, normalized
from bertwright.models.encoder import Encoded
from bertwright.objectives.labelled import Head
from bertwright.serve.engine import Engine, Part, Work
from bertwright.tasks.predict import Window, predict_encoded
from bertwright.tasks.predictions import Prediction
from bertwright.tasks.task_data import joined


@dataclass
class _Given:
    """A backend whose layers are there already."""

    part: Part
    name: str = "given"

    def run(self, ids: Ids, types: Ids | None, layers: tuple[int, ...]) -> Iterator[Found]:
        """See `Backend`."""
        part = self.part
        yield part.rows, part.sequences, [part.layers[number].float() for number in layers]


class _Maker(VectorMaker):
    """Pools what it is given."""

    given: Pieces

    def _pieces(self, texts: Sequence[Text]) -> Pieces:
        return self.given


@dataclass(frozen=True)
class Vectors:
    """A vector a text; a work's data are the starts of its windows."""

    engine: Engine
    config: VectorConfig

    @property
    def layers(self) -> tuple[int, ...]:
        """See `Reader`."""
        return self.config.numbers(self.engine.top)

    def read(self, works: Sequence[Work], part: Part) -> Sequence[Any]:
        """A float32 `[W]` for each."""
        engine = self.engine
        maker = _Maker(
            _Given(part), engine.tokenizer, engine.config, self.config, dense=engine.dense
        )
        maker.given = Pieces(
            ids=[list(ids) for work in works for ids in work.ids],
            owners=[number for number, work in enumerate(works) for _ in work.ids],
            starts=[start for work in works for start in work.data],
        )
        return list(maker.embed([""] * len(works)))


@dataclass(frozen=True)
class Tokens:
    """A vector a token; windows of a text are put together."""

    engine: Engine
    config: VectorConfig

    @property
    def layers(self) -> tuple[int, ...]:
        """See `Reader`."""
        return self.config.numbers(self.engine.top)

    def read(self, works: Sequence[Work], part: Part) -> Sequence[Float32s]:
        """A float32 `[T, W]` for each."""
        layers = [part.layers[number].float() for number in self.layers]
        if self.config.joined == "concat":
            x = torch.cat(layers, 1)
        else:
            x = torch.stack(layers).sum(0)
            x = x / len(layers) if self.config.joined == "mean" else x
        rows = _by_number(x, part)
        found = []
        for first, stop in _bounds(works):
            windows = rows[first:stop]
            last = len(windows) - 1
            parts = [w[bool(n) : None if n == last else -1] for n, w in enumerate(windows)]
            whole = torch.cat(parts).cpu().numpy()
            found.append(normalized(whole) if self.config.normalize else whole)
        return found


@dataclass(frozen=True)
class Fill:
    """The likeliest tokens of blanks; a work's data are its `Blanks` and how many are asked."""

    engine: Engine

    @property
    def layers(self) -> tuple[int, ...]:
        """See `Reader`."""
        return (self.engine.top,)

    def read(self, works: Sequence[Work], part: Part) -> Sequence[Any]:
        """A list of lists of (token, probability) for each."""
        rows = _by_number(part.layers[self.engine.top].float(), part)
        found = []
        for (first, _), work in zip(_bounds(works), works, strict=True):
            blanks: Blanks = work.data[0]
            x = torch.stack([rows[first + window][place] for window, place in blanks.places])
            found.append(judge_blanks(self.engine.runner, x, work.data[1]))
        return found


@dataclass(frozen=True)
class Pairs:
    """Whether one text follows another."""

    engine: Engine

    @property
    def layers(self) -> tuple[int, ...]:
        """See `Reader`."""
        return (self.engine.top,)

    def read(self, works: Sequence[Work], part: Part) -> Sequence[float]:
        """A probability for each."""
        x = part.layers[self.engine.top].float()
        pooled = self.engine.runner.encoder.pooler(x[part.sequences.first])
        found = judge_pairs(self.engine.runner, pooled)
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
            pooled = self.engine.runner.encoder.pooler(last[own.sequences.first])
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

    def read(self, works: Sequence[Work], part: Part) -> Sequence[Any]:
        """Float32 `[layers, A, T, T]` for each."""
        encoder = self.engine.runner.encoder
        found = []
        bounds = part.sequences.offsets
        places = {number: place for place, number in enumerate(part.rows)}
        for number in range(len(works)):
            start, stop = bounds[places[number]], bounds[places[number] + 1]
            maps = [
                attention_map(
                    encoder.layer(n - 1).attention, part.layers[n - 1][start:stop].float()
                )
                for n in self.numbers
            ]
            found.append(np.stack([each.cpu().numpy() for each in maps]))
        return found


def _bounds(works: Sequence[Work]) -> list[tuple[int, int]]:
    """Numbers of the first window of each text and one after its last."""
    ends = list(accumulate(len(work.ids) for work in works))
    return [(end - len(work.ids), end) for end, work in zip(ends, works, strict=True)]


def _by_number(x: Tensor, part: Part) -> list[Tensor]:
    """The rows of each sequence, in the order of their numbers."""
    pieces = torch.split(x, part.sequences.lengths)
    found: list[Tensor] = [x] * len(pieces)
    for row, piece in zip(part.rows, pieces, strict=True):
        found[row] = piece
    return found
