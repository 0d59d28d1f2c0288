"""Learning pieces by merging neighbours: the machine under `wordpiece` and `bpe`.

Every distinct word starts as a row of characters, the first bare and the others marked "##". A
round scores all pairs of neighbours exactly, takes the best pair and every pair that scores nearly
as much (`NEAR` of the best) and shares no piece with a better one in a way that could overlap or
compete with it, and merges all of them at once in all words. A merged pair is a new piece, or one
that is there already when the same string came about in another way.

Merging one pair a round would be the textbook loop. The rounds give the same likelihood (0.1 % of
it either way) in a tenth of the time or less, because a round is a handful of numpy calls over
all occurrences; `benchmarks/tokenizer_training.py` shows both.

Everything is kept by position: `symbol`, the words' pieces end to end; `after` and `before`, the
neighbouring position in the word or -1; `pair`, the number of the pair that begins here, 0 for
none. Ties are broken by the spelling of the pair, so the outcome is a function of the word counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Bools, Float64s, Int64s
from bertwright.progress import OnProgress, silent

NEAR = 0.8
"""Pairs down to this share of the best score may be merged in one round."""

MARK = "##"
"""What a piece begins with that goes on with a word."""


@dataclass(frozen=True)
class Criterion:
    """What makes a pair worth merging."""

    score: Callable[[Int64s, Int64s, Int64s, Bools, int], Float64s]
    """(how often each pair can be merged, counts of the left pieces, of the right pieces, whether
    left is right, number of pieces in all) -> scores; only positive ones are merged."""
    bound: Callable[[float, int], float]
    """(score, number of pieces in all) -> the count below which no pair reaches this score."""


class Merger:
    """Words as rows of pieces, with the counts of all pieces and pairs kept up to date."""

    def __init__(self, words: Sequence[str], counts: Sequence[int]) -> None:
        """Start from the characters of distinct, non-empty `words`, each seen `counts` times."""
        lengths = np.array([len(word) for word in words], dtype=np.int64)
        codes = np.frombuffer("".join(words).encode("utf-32-le"), dtype=np.uint32)
        starts = np.cumsum(lengths) - lengths
        goes_on = np.ones(len(codes), dtype=np.int64)
        goes_on[starts] = 0
        kinds, symbol = np.unique(codes.astype(np.int64) * 2 + goes_on, return_inverse=True)
        self.pieces = [(MARK if kind & 1 else "") + chr(kind >> 1) for kind in kinds.tolist()]
        self.index = {piece: number for number, piece in enumerate(self.pieces)}
        self.symbol = symbol.astype(np.int32)
        self.weight = np.repeat(np.asarray(counts, dtype=np.int64), lengths)
        places = np.arange(len(codes), dtype=np.int32)
        self.after = places + 1
        self.after[starts + lengths - 1] = -1
        self.before = places - 1
        self.before[starts] = -1
        self.piece_count = _sums(self.symbol, self.weight, len(self.pieces))
        self.total = int(self.piece_count.sum())
        self.pair = np.zeros(len(codes), dtype=np.int32)
        self.pair_number: dict[int, int] = {}
        self.num_pairs = 1  # number 0 is no pair
        self.left = np.zeros(1 << 16, dtype=np.int32)
        self.right = np.zeros(1 << 16, dtype=np.int32)
        self.pair_count = np.zeros(1 << 16, dtype=np.int64)
        self._count_pairs(np.flatnonzero(self.after >= 0))

    def learn(
        self,
        size: int,
        criterion: Criterion,
        near: float = NEAR,
        one_a_round: bool = False,
        on_progress: OnProgress = silent,
    ) -> int:
        """Merge until there are `size` pieces or no pair scores above 0; return the rounds."""
        rounds = 0
        cut = 0.0
        while len(self.pieces) < size:
            pairs, scores = self._best_pairs(criterion, near, cut)
            if not len(pairs):
                break
            cut = float(scores.max()) * near
            chosen = self._choose(pairs, scores, 1 if one_a_round else size - len(self.pieces))
            self._merge(chosen)
            rounds += 1
            on_progress(len(self.pieces), size)
        return rounds

    def _best_pairs(
        self, criterion: Criterion, near: float, last_cut: float
    ) -> tuple[Int64s, Float64s]:
        """The pairs that score at least `near` of the best, and their scores.

        A count too small for half of the last round's cut is not scored at all, unless the best
        score turns out so low that it could matter; then all are.

        Neighbouring pairs of a run overlap: "aaa" has two (a, a), of which one can be merged. Their
        count as neighbours scores them too high if anything, so only those at the top are counted
        anew, until none of them is left.
        """
        for reach in (last_cut / 2, 0.0):
            lowest = max(1.0, criterion.bound(reach, self.total)) if reach > 0 else 1.0
            pairs = np.flatnonzero(self.pair_count[: self.num_pairs] >= lowest)
            if not len(pairs):
                continue
            scores = self._scores(criterion, pairs, self.pair_count[pairs])
            unsure = self.left[pairs] == self.right[pairs]
            while True:
                best = float(scores.max())
                high = np.flatnonzero(unsure & (scores >= best * near))
                if best <= 0 or not len(high):
                    break
                unsure[high] = False
                scores[high] = self._scores(criterion, pairs[high], self._mergeable(pairs[high]))
            if best <= 0 or best * near < reach:
                continue
            kept = scores >= best * near
            return pairs[kept], scores[kept]
        return np.empty(0, dtype=np.int64), np.empty(0)

    def _scores(self, criterion: Criterion, pairs: Int64s, times: Int64s) -> Float64s:
        """The scores of pairs that can be merged so many times."""
        left, right, counts = self.left[pairs], self.right[pairs], self.piece_count
        return criterion.score(times, counts[left], counts[right], left == right, self.total)

    def _mergeable(self, twins: Int64s) -> Int64s:
        """How often each pair of twins can be merged: of a run, every second."""
        asked = np.zeros(self.num_pairs, dtype=np.bool_)
        asked[twins] = True
        first = np.flatnonzero(asked[self.pair])
        first = first[self._every_second_of_a_run(first)]
        return _sums(self.pair[first], self.weight[first], self.num_pairs)[twins]

    def _choose(self, pairs: Int64s, scores: Float64s, most: int) -> dict[int, int]:
        """Pair number -> piece number of what is merged this round, best first."""
        left, right = self.left[pairs].tolist(), self.right[pairs].tolist()
        ordered = sorted(
            (-score, self.pieces[a], self.pieces[b], a, b, pair)
            for score, a, b, pair in zip(scores.tolist(), left, right, pairs.tolist(), strict=True)
        )
        # A piece that a better pair has on its left may be on the left again, not on the right:
        # then the two could overlap. A pair passed over holds its pieces all the same, so that a
        # worse one does not take its occurrences.
        lefts: set[int] = set()
        rights: set[int] = set()
        chosen: dict[int, int] = {}
        room = most
        for _, first, second, a, b, pair in ordered:
            free = a not in rights and b not in lefts
            free = free and (a != b or (a not in lefts and b not in rights))
            lefts.add(a)
            rights.add(b)
            if not free:
                continue
            string = first + second.removeprefix(MARK)
            number = self.index.get(string)
            if number is None:
                if not room:
                    break
                room -= 1
                number = len(self.pieces)
                self.pieces.append(string)
                self.index[string] = number
            chosen[pair] = number
            if len(chosen) == most:
                break
        grown = len(self.pieces) - len(self.piece_count)
        self.piece_count = np.concatenate([self.piece_count, np.zeros(grown, dtype=np.int64)])
        return chosen

    def _merge(self, chosen: dict[int, int]) -> None:
        """Merge all occurrences of the chosen pairs."""
        becomes = np.full(self.num_pairs, -1, dtype=np.int32)
        becomes[list(chosen)] = list(chosen.values())
        merged = becomes[self.pair]
        first = np.flatnonzero(merged >= 0)
        first = first[self._every_second_of_a_run(first)]
        second = self.after[first]
        earlier, later = self.before[first], self.after[second]

        touched = np.unique(np.concatenate([earlier[earlier >= 0], first, second]))
        self.pair_count[: self.num_pairs] -= _sums(
            self.pair[touched], self.weight[touched], self.num_pairs
        )
        self.pair_count[0] = 0
        weight, made = self.weight[first], merged[first]
        size = len(self.pieces)
        self.piece_count -= _sums(self.symbol[first], weight, size)
        self.piece_count -= _sums(self.symbol[second], weight, size)
        self.piece_count += _sums(made, weight, size)
        self.total -= int(weight.sum())

        self.symbol[first] = made
        self.symbol[second] = -1
        self.after[first] = later
        self.before[later[later >= 0]] = first[later >= 0]
        self.pair[first] = 0
        self.pair[second] = 0
        earlier = self.before[first]  # again: it may just have been merged itself
        self._count_pairs(
            np.unique(np.concatenate([earlier[earlier >= 0], first[self.after[first] >= 0]]))
        )

    def _every_second_of_a_run(self, first: Int64s) -> Bools:
        """Which occurrences to merge: all, but of "aaaa" as (a, a) only every second."""
        twins = self.symbol[first] == self.symbol[self.after[first]]
        begins = np.ones(len(first), dtype=np.bool_)
        begins[1:] = ~(twins[1:] & (self.after[first[:-1]] == first[1:]))
        order = np.arange(len(first))
        since: Int64s = order - np.maximum.accumulate(np.where(begins, order, 0))
        chosen: Bools = since % 2 == 0
        return chosen

    def _count_pairs(self, places: Int64s) -> None:
        """Name and count the pairs that begin at `places`, which have a neighbour."""
        keys = self.symbol[places].astype(np.int64) << 32
        keys |= self.symbol[self.after[places]]
        distinct, which = np.unique(keys, return_inverse=True)
        number_of = self.pair_number
        numbers = np.empty(len(distinct), dtype=np.int32)
        start = self.num_pairs
        for place, key in enumerate(distinct.tolist()):
            number = number_of.get(key)
            if number is None:
                number = number_of[key] = self.num_pairs
                self.num_pairs += 1
            numbers[place] = number
        while len(self.left) < self.num_pairs:
            self.left = np.concatenate([self.left, np.zeros_like(self.left)])
            self.right = np.concatenate([self.right, np.zeros_like(self.right)])
            self.pair_count = np.concatenate([self.pair_count, np.zeros_like(self.pair_count)])
        new = distinct[numbers >= start]
        self.left[start : self.num_pairs] = new >> 32
        self.right[start : self.num_pairs] = new & 0xFFFFFFFF
        self.pair[places] = numbers[which]
        self.pair_count[numbers] += _sums(which, self.weight[places], len(distinct))


def _sums(groups: npt.NDArray[np.integer], weights: Int64s, size: int) -> Int64s:
    """Sum of `weights` by group; float64 holds whole numbers up to 2^53 exactly."""
    return np.bincount(groups, weights, minlength=size).astype(np.int64)
