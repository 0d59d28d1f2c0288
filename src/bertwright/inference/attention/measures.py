"""Measure what each head attends to, on average over many texts (Clark et al. 2019, section 3).

The measures of each token's attention are its mean distance in tokens, its entropy in nats, and the
fractions that go to the token itself, to its neighbours, and to the special tokens of the sequence.

Letters: T tokens of a sequence, L layers, A heads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from bertwright.arrays import Float32s, Float64s
from bertwright.errors import DataError
from bertwright.inference.attention.maps import maps_of_all, require_attention
from bertwright.inference.encode import ModelRunner, Text, tokenize
from bertwright.progress import OnProgress, silent

CHUNK = 64
"""The number of texts that are tokenized at a time."""


@dataclass
class HeadMeasures:
    """Sums of the measures over tokens, `[L, A]` each."""

    texts: int = 0
    tokens: int = 0
    sums: dict[str, Float64s] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def means(self) -> dict[str, Float64s]:
        """Return the means by the name of the measure: `distance`, `entropy`, `itself`, `previous`,
        `next`, and each special token.
        """
        return {name: x / max(1, self.counts[name]) for name, x in self.sums.items()}

    def add(self, maps: Float32s, ids: list[int], special: dict[int, str]) -> None:
        """Add a sequence of T `ids` with its maps, `[L, A, T, T]`."""
        p = maps.astype(np.float64)
        count = len(ids)
        at = np.arange(count)
        gap = np.abs(at[:, None] - at)
        self.tokens += count
        self._add("distance", (p * gap).sum((-2, -1)), count)
        self._add("entropy", -(p * np.log(np.maximum(p, 1e-300))).sum((-2, -1)), count)
        self._add("itself", p[..., at, at].sum(-1), count)
        self._add("previous", p[..., at[1:], at[:-1]].sum(-1), count - 1)
        self._add("next", p[..., at[:-1], at[1:]].sum(-1), count - 1)
        for index, name in special.items():
            is_special = np.asarray(ids) == index
            self._add(name, p[..., is_special].sum((-2, -1)), count)

    def _add(self, name: str, x: Float64s, count: int) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + x
        self.counts[name] = self.counts.get(name, 0) + count


def measure_heads(
    runner: ModelRunner,
    texts: Iterable[Text],
    limit: int = 1000,
    on_progress: OnProgress = silent,
) -> HeadMeasures:
    """Measure every head over the first `limit` texts; a long text is read in windows.

    Raises:
        DataError: the model has no attention, or there is no text.
    """
    require_attention(runner)
    tokenizer, spec, measures = runner.tokenizer, runner.spec, HeadMeasures()
    frame = sorted({*tokenizer.framing.two([], [])})
    special = dict(zip(frame, tokenizer.tokens_of(frame), strict=True))
    rows = islice((text for text in texts if text), limit)
    while chunk := list(islice(rows, CHUNK)):
        tokenized = tokenize(tokenizer, chunk, spec.max_length, False, spec.reads_pairs)
        for row, maps in maps_of_all(runner, tokenized.ids, tokenized.segments):
            measures.add(maps, tokenized.ids[row], special)
        measures.texts += len(chunk)
        on_progress(measures.texts, limit)
    if not measures.tokens:
        raise DataError("no text to measure attention on; expected one a line")
    return measures
