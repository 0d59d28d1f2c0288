"""Learn WordPiece vocabularies from word counts, by the merges that increase the likelihood most;
or BPE.

Source: Schuster and Nakajima, "Japanese and Korean Voice Search" (ICASSP 2012), section 3.1: start
from the characters; "choose the new word unit out of all possible ones that increases the
likelihood on the training data the most when added to the model"; repeat. google-research/bert
released vocabularies that were made this way, but not the trainer.

The model is a unigram model over wordpieces, estimated on the wordpieces themselves. With c_x the
count of wordpiece x and N the number of all wordpieces, its log-likelihood is

    L = sum over x of c_x log c_x  -  N log N.

Merging all n occurrences of the pair (a, b) makes a wordpiece with count n, and reduces the counts
of a and b, and N, by n. The gain is exact, not an approximation:

    gain = n log n + (c_a - n) log(c_a - n) - c_a log c_a
                   + (c_b - n) log(c_b - n) - c_b log c_b
         - (N - n) log(N - n) + N log N,

for a = b the middle lines become (c_a - 2n) log(c_a - 2n) - c_a log c_a.

To first order this is n log(n N / (c_a c_b)): the frequency times the pointwise mutual information.
The score n / (c_a c_b) found in tutorials is a function of the gain per occurrence; it ranks any
two characters that occur once, together, above "t" + "##h".

Byte pair encoding (Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with
Subword Units", ACL 2016, section 3.2, on characters) maximizes n alone. Its vocabularies use "##"
and are matched longest first at run time like all others here, so that any BERT can load them; the
order of the merges is not kept. In a run ("aaa") only pairs that can be merged together are
counted, where the paper's listing also counts overlapping ones.

There are three steps: `choose_alphabet`, `Merger.train` (to more wordpieces than wanted), and
`Pruner.shrink` (to those that longest-first matching uses best).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Bools, Float64s, Int64s
from bertwright.progress import OnProgress, silent
from bertwright.text.tokenizer.normalize import longest_match

NEAR = 0.8
"""Pairs that score at least this fraction of the best may be merged in the same round."""

MARK = "##"
"""The beginning of a wordpiece that continues a word."""


PASSES = 3
"""How many times words are matched again while pruning, because the uses of a dropped wordpiece go
to others.
"""


@dataclass(frozen=True)
class Alphabet:
    """The characters of a vocabulary as entries, and the characters left out.

    A character that occurs in longer words is two entries, "x" and "##x", so that any word made of
    known characters has a tokenization. A character that always stands alone (punctuation, Chinese)
    is one entry.
    """

    entries: list[str]
    """Bare characters by code point, then those with "##"."""
    characters: frozenset[str]
    dropped: list[str]
    """The characters left out, the most frequent first."""

    def covers(self, word: str) -> bool:
        """Return whether every character of `word` is known."""
        return self.characters.issuperset(word)


def choose_alphabet(counts: Mapping[str, int], coverage: float) -> Alphabet:
    """Return the most frequent characters, ties by code point, that cover the fraction `coverage`
    of all occurrences.
    """
    words = list(counts)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    codes = np.frombuffer("".join(words).encode("utf-32-le"), dtype=np.uint32)
    times = np.repeat(np.fromiter(counts.values(), dtype=np.int64, count=len(words)), lengths)
    distinct, which = np.unique(codes, return_inverse=True)
    uses = np.bincount(which, times).astype(np.int64)
    in_longer = np.bincount(which, np.repeat(lengths > 1, lengths)) > 0

    order = np.lexsort((distinct, -uses))
    covered = np.cumsum(uses[order])
    total = int(covered[-1]) if len(covered) else 0
    count = int(np.searchsorted(covered, math.ceil(total * coverage))) + 1
    count = min(count, len(order))
    chosen, dropped = np.sort(order[:count]), order[count:]
    bare = [chr(code) for code in distinct[chosen].tolist()]
    marked = [MARK + chr(code) for code in distinct[chosen[in_longer[chosen]]].tolist()]
    return Alphabet(
        entries=bare + marked,
        characters=frozenset(bare),
        dropped=[chr(code) for code in distinct[dropped].tolist()],
    )


@dataclass(frozen=True)
class Criterion:
    """The criterion by which pairs are merged."""

    score: Callable[[Int64s, Int64s, Int64s, Bools, int], Float64s]
    """(how often each pair can be merged, counts of its left and right wordpiece, whether both are
    the same, number of all wordpieces) -> scores; only pairs with positive scores are merged.
    """
    bound: Callable[[float, int], float]
    """(score, number of all wordpieces) -> a count; pairs below it cannot reach the score."""


def gain(pair: Int64s, left: Int64s, right: Int64s, twins: Bools, total: int) -> Float64s:
    """Return the gain in log-likelihood of merging each pair, in nats; see `Criterion.score`."""
    n = pair.astype(np.float64)
    rest_left = np.where(twins, left - 2 * pair, left - pair)
    gained = _x_log_x(n) + _x_log_x(rest_left) - _x_log_x(left)
    gained += np.where(twins, 0.0, _x_log_x(right - pair) - _x_log_x(right))
    return gained + total * math.log(total) - _x_log_x(total - n)


def least_count(score: float, total: int) -> float:
    """Return the count below which no pair gains `score`: the gain is at most n (1 + log N)."""
    return score / (1 + math.log(total))


def _x_log_x(x: Float64s | Int64s) -> Float64s:
    """Return x log x, and 0 at 0 and below (`Merger` first scores with counts of overlapping
    pairs).
    """
    x = np.maximum(x, 1).astype(np.float64)
    return x * np.log(x)


LIKELIHOOD = Criterion(score=gain, bound=least_count)
"""The criterion of WordPiece: the gain in log-likelihood."""
FREQUENCY = Criterion(
    score=lambda pair, left, right, twins, total: pair.astype(np.float64),
    bound=lambda score, total: score,
)
"""The criterion of byte pair encoding: the frequency of the pair."""


class Merger:
    """Words as rows of wordpieces, with the counts of all wordpieces and pairs.

    Every distinct word starts as a row of characters, the first bare and the others marked "##". A
    round scores all pairs of neighbours exactly. It takes the best pair and all pairs that score
    nearly as much (`NEAR` of the best) and do not share a wordpiece with a better pair such that
    they could overlap or compete. It merges all of them at once in all words. A merged pair is a
    new wordpiece, or an existing one if the same string was made by another merge.

    The textbook algorithm merges one pair in each round. Merging several gives the same likelihood
    (within 0.1 %) in a tenth of the time or less, because a round is a few numpy calls over all
    occurrences; `benchmarks/tokenizer_training.py` shows both.

    All arrays are indexed by position: `symbol` holds the words' wordpieces end to end; `after` and
    `before` the neighbouring position in the word or -1; `pair` the number of the pair that begins
    at the position, or 0. Ties are broken by the spelling of the pair, so the result is a function
    of the word counts.
    """

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
        positions = np.arange(len(codes), dtype=np.int32)
        self.after = positions + 1
        self.after[starts + lengths - 1] = -1
        self.before = positions - 1
        self.before[starts] = -1
        self.piece_count = _sums(self.symbol, self.weight, len(self.pieces))
        self.total = int(self.piece_count.sum())
        self.pair = np.zeros(len(codes), dtype=np.int32)
        self.pair_number: dict[int, int] = {}
        self.num_pairs = 1  # number 0 stands for no pair
        self.left = np.zeros(1 << 16, dtype=np.int32)
        self.right = np.zeros(1 << 16, dtype=np.int32)
        self.pair_count = np.zeros(1 << 16, dtype=np.int64)
        self._count_pairs(np.flatnonzero(self.after >= 0))

    def train(
        self,
        size: int,
        criterion: Criterion,
        near: float = NEAR,
        one_a_round: bool = False,
        on_progress: OnProgress = silent,
    ) -> int:
        """Merge until there are `size` wordpieces or no pair scores above 0; return the number of
        rounds.
        """
        rounds = 0
        threshold = 0.0
        while len(self.pieces) < size:
            pairs, scores = self._best_pairs(criterion, near, threshold)
            if not len(pairs):
                break
            threshold = float(scores.max()) * near
            chosen = self._choose(pairs, scores, 1 if one_a_round else size - len(self.pieces))
            self._merge(chosen)
            rounds += 1
            on_progress(len(self.pieces), size)
        return rounds

    def _best_pairs(
        self, criterion: Criterion, near: float, last_threshold: float
    ) -> tuple[Int64s, Float64s]:
        """Return the pairs that score at least `near` of the best, and their scores.

        A pair whose count is too small for half of the last round's threshold is not scored, unless
        the best score is so low that it could matter; then all pairs are.

        Neighbouring pairs of a run overlap: "aaa" has two (a, a), of which one can be merged. Their
        count as neighbours overestimates their score, so those at the top are counted exactly,
        until none of them is overestimated.
        """
        for reach in (last_threshold / 2, 0.0):
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
            near_best = scores >= best * near
            return pairs[near_best], scores[near_best]
        return np.empty(0, dtype=np.int64), np.empty(0)

    def _scores(self, criterion: Criterion, pairs: Int64s, times: Int64s) -> Float64s:
        """Return the scores of pairs that can be merged `times` times."""
        left, right, counts = self.left[pairs], self.right[pairs], self.piece_count
        return criterion.score(times, counts[left], counts[right], left == right, self.total)

    def _mergeable(self, twins: Int64s) -> Int64s:
        """Return how often each pair of equal wordpieces can be merged: in a run, every second
        occurrence.
        """
        wanted = np.zeros(self.num_pairs, dtype=np.bool_)
        wanted[twins] = True
        first = np.flatnonzero(wanted[self.pair])
        first = first[self._every_second_of_a_run(first)]
        return _sums(self.pair[first], self.weight[first], self.num_pairs)[twins]

    def _choose(self, pairs: Int64s, scores: Float64s, most: int) -> dict[int, int]:
        """Return the pairs to merge in this round, best first: pair number -> wordpiece number."""
        left, right = self.left[pairs].tolist(), self.right[pairs].tolist()
        ordered = sorted(
            (-score, self.pieces[a], self.pieces[b], a, b, pair)
            for score, a, b, pair in zip(scores.tolist(), left, right, pairs.tolist(), strict=True)
        )
        # A wordpiece on the left of a better pair may be on the left of another pair, but not on
        # its right, because the two could overlap. A pair that is skipped reserves its wordpieces
        # too, so that a worse pair does not take its occurrences.
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
        weight, result = self.weight[first], merged[first]
        size = len(self.pieces)
        self.piece_count -= _sums(self.symbol[first], weight, size)
        self.piece_count -= _sums(self.symbol[second], weight, size)
        self.piece_count += _sums(result, weight, size)
        self.total -= int(weight.sum())

        self.symbol[first] = result
        self.symbol[second] = -1
        self.after[first] = later
        self.before[later[later >= 0]] = first[later >= 0]
        self.pair[first] = 0
        self.pair[second] = 0
        earlier = self.before[first]  # read again, because it may itself have been merged
        self._count_pairs(
            np.unique(np.concatenate([earlier[earlier >= 0], first[self.after[first] >= 0]]))
        )

    def _every_second_of_a_run(self, first: Int64s) -> Bools:
        """Return whether to merge each occurrence.

        All are merged, except that in a run of equal wordpieces, such as "aaaa" for the pair
        (a, a), only every second one is.
        """
        twins = self.symbol[first] == self.symbol[self.after[first]]
        begins = np.ones(len(first), dtype=np.bool_)
        begins[1:] = ~(twins[1:] & (self.after[first[:-1]] == first[1:]))
        order = np.arange(len(first))
        since: Int64s = order - np.maximum.accumulate(np.where(begins, order, 0))
        chosen: Bools = since % 2 == 0
        return chosen

    def _count_pairs(self, positions: Int64s) -> None:
        """Number and count the pairs that begin at `positions`, which have a right neighbour."""
        keys = self.symbol[positions].astype(np.int64) << 32
        keys |= self.symbol[self.after[positions]]
        distinct, which = np.unique(keys, return_inverse=True)
        number_of = self.pair_number
        numbers = np.empty(len(distinct), dtype=np.int32)
        start = self.num_pairs
        for index, key in enumerate(distinct.tolist()):
            number = number_of.get(key)
            if number is None:
                number = number_of[key] = self.num_pairs
                self.num_pairs += 1
            numbers[index] = number
        while len(self.left) < self.num_pairs:
            self.left = np.concatenate([self.left, np.zeros_like(self.left)])
            self.right = np.concatenate([self.right, np.zeros_like(self.right)])
            self.pair_count = np.concatenate([self.pair_count, np.zeros_like(self.pair_count)])
        new = distinct[numbers >= start]
        self.left[start : self.num_pairs] = new >> 32
        self.right[start : self.num_pairs] = new & 0xFFFFFFFF
        self.pair[positions] = numbers[which]
        self.pair_count[numbers] += _sums(which, self.weight[positions], len(distinct))


def _sums(groups: npt.NDArray[np.integer], weights: Int64s, size: int) -> Int64s:
    """Return the sum of `weights` by group; float64 represents integers up to 2^53 exactly."""
    return np.bincount(groups, weights, minlength=size).astype(np.int64)


class Pruner:
    """All words, matched longest first with a vocabulary that shrinks.

    Merging decides by its own state which wordpieces a word consists of, but at run time the
    longest match from the left decides. The two disagree: on 20 MB of English one wordpiece in
    twenty is never used (intermediate steps such as "##tio" on the way to "##tion"). So more
    wordpieces are made than wanted, and those whose loss costs the least likelihood are dropped.
    The loss of a wordpiece v is computed as in the pruning of Kudo, "Subword Regularization" (ACL
    2018), section 3.2, with the longest match in place of the Viterbi segmentation:

        loss(v) = n_v (log p(v) - sum of log p(u) over the wordpieces u that spell v without v).

    Characters are never dropped, so no word becomes unknown.
    """

    def __init__(
        self,
        alphabet: Sequence[str],
        pieces: Sequence[str],
        words: Sequence[str],
        counts: Sequence[int],
    ) -> None:
        """Match distinct `words`, seen `counts` times, with `alphabet` + `pieces`."""
        self.pieces = list(pieces)
        self.words = words
        self.counts = counts
        self._vocab = {piece: piece for piece in (*alphabet, *pieces)}
        self.uses: Counter[str] = Counter()
        """The number of uses of each wordpiece, over all words."""
        self._spelled = [self._match(word) for word in words]
        for spelled, count in zip(self._spelled, counts, strict=True):
            for piece in spelled:
                self.uses[piece] += count

    def shrink(self, size: int) -> list[str]:
        """Drop wordpieces, in `PASSES` steps, until `size` are left; return these in order."""
        for left in range(PASSES, 0, -1):
            surplus = len(self.pieces) - size
            if surplus <= 0:
                break
            losses = self.losses()
            by_loss = sorted(self.pieces, key=lambda piece: (losses[piece], piece))
            self._drop(set(by_loss[: math.ceil(surplus / left)]))
        return self.pieces

    def losses(self) -> dict[str, float]:
        """Return the log-likelihood (nats) that dropping each wordpiece by itself would cost."""
        total = sum(self.uses.values())
        # a wordpiece that is not used is counted as half a use
        log_p = {v: math.log((self.uses[v] or 0.5) / total) for v in self._vocab}
        losses = {}
        for piece in self.pieces:
            uses = self.uses[piece]
            losses[piece] = 0.0
            if uses:
                del self._vocab[piece]
                without = self._match(piece.removeprefix(MARK), inside=piece.startswith(MARK))
                self._vocab[piece] = piece
                losses[piece] = uses * (log_p[piece] - sum(log_p[part] for part in without))
        return losses

    def _drop(self, dropped: set[str]) -> None:
        """Remove wordpieces, and match the words that used them again."""
        self.pieces = [piece for piece in self.pieces if piece not in dropped]
        for piece in dropped:
            del self._vocab[piece]
        for index, spelled in enumerate(self._spelled):
            if dropped.isdisjoint(spelled):
                continue
            count = self.counts[index]
            for piece in spelled:
                self.uses[piece] -= count
            self._spelled[index] = spelled = self._match(self.words[index])
            for piece in spelled:
                self.uses[piece] += count

    def _match(self, word: str, inside: bool = False) -> list[str]:
        """Return the wordpieces of a word, which always exist because the alphabet is never
        dropped.
        """
        spelled = longest_match(word, self._vocab, inside=inside)
        if spelled is None:
            raise ValueError(f"the alphabet does not cover {word!r}")
        return spelled
