"""The gain is the formula, the rounds keep exact counts, and ties and order are settled."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertwright.text.tokenizer.wordpiece import (
    FREQUENCY,
    LIKELIHOOD,
    MARK,
    Criterion,
    Merger,
    gain,
    least_count,
)

WORDS = st.dictionaries(
    st.text(alphabet="abc", min_size=1, max_size=8), st.integers(1, 50), min_size=1, max_size=12
)


def likelihood(uses: Counter[str]) -> float:
    """Log-likelihood of a corpus under the unigram model of its own pieces."""
    total = sum(uses.values())
    return sum(count * math.log(count / total) for count in uses.values() if count)


def cut_of(merger: Merger, place: int) -> list[str]:
    """The pieces of the word that begins at `place`."""
    pieces = []
    while place >= 0:
        pieces.append(merger.pieces[merger.symbol[place]])
        place = int(merger.after[place])
    return pieces


def uses_of(merger: Merger) -> Counter[str]:
    """Counts of all pieces."""
    return Counter({p: int(n) for p, n in zip(merger.pieces, merger.piece_count, strict=True) if n})


def merge_by_hand(cut: list[str], first: str, second: str) -> list[str]:
    """Merge a pair from left to right in one word."""
    merged: list[str] = []
    place = 0
    while place < len(cut):
        if cut[place : place + 2] == [first, second]:
            merged.append(first + second.removeprefix(MARK))
            place += 2
        else:
            merged.append(cut[place])
            place += 1
    return merged


def learn_by_hand(words: dict[str, int], size: int, criterion: str) -> list[str]:
    """The textbook loop: score every pair from the cuts, merge the best, begin again."""
    cuts = {w: [w[0], *(MARK + c for c in w[1:])] for w in words}
    pieces = sorted({p for cut in cuts.values() for p in cut})
    while len(pieces) < size:
        uses: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for word, cut in cuts.items():
            for piece in cut:
                uses[piece] += words[word]
            for pair in set(pairwise(cut)):
                pairs[pair] += words[word] * (len(cut) - len(merge_by_hand(cut, *pair)))
        total = sum(uses.values())
        best: tuple[float, str, str] | None = None
        for (a, b), n in pairs.items():
            score = float(n)
            if criterion == "likelihood":
                numbers = (np.array([x]) for x in (n, uses[a], uses[b]))
                score = float(gain(*numbers, np.array([a == b]), total)[0])
            if score > 0 and (best is None or (-score, a, b) < best):
                best = (-score, a, b)
        if best is None:
            break
        _, a, b = best
        cuts = {word: merge_by_hand(cut, a, b) for word, cut in cuts.items()}
        if a + b.removeprefix(MARK) not in pieces:
            pieces.append(a + b.removeprefix(MARK))
    return pieces


@given(st.integers(1, 100), st.integers(0, 100), st.integers(0, 100), st.integers(0, 500))
def test_gain_is_the_difference_of_two_likelihoods(n: int, x: int, y: int, rest: int) -> None:
    before = Counter({"a": n + x, "b": n + y, "z": rest})
    after = Counter({"a": x, "b": y, "z": rest, "ab": n})
    given_ = [np.array([value]) for value in (n, n + x, n + y)]
    got = gain(*given_, np.array([False]), before.total())[0]
    assert got == pytest.approx(likelihood(after) - likelihood(before), abs=1e-6)


@given(st.integers(1, 100), st.integers(0, 100), st.integers(1, 500))
def test_gain_of_twins(n: int, x: int, rest: int) -> None:
    before = Counter({"a": 2 * n + x, "z": rest})
    after = Counter({"a": x, "z": rest, "aa": n})
    c = np.array([2 * n + x])
    got = gain(np.array([n]), c, c, np.array([True]), before.total())[0]
    assert got == pytest.approx(likelihood(after) - likelihood(before), abs=1e-6)


@given(st.integers(1, 100), st.integers(0, 100), st.integers(0, 100), st.integers(0, 500))
def test_bound_never_hides_a_pair(n: int, x: int, y: int, rest: int) -> None:
    total = 2 * n + x + y + rest
    score = gain(np.array([n]), np.array([n + x]), np.array([n + y]), np.array([False]), total)[0]
    if score > 0:
        assert least_count(float(score), total) <= n + 1e-9


@given(WORDS, st.sampled_from([LIKELIHOOD, FREQUENCY]))
def test_counts_stay_exact_through_all_rounds(words: dict[str, int], rule: Criterion) -> None:
    merger = Merger(list(words), list(words.values()))
    merger.train(len(merger.pieces) + 10, rule)
    uses: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    place = 0
    for word, count in words.items():
        cut = cut_of(merger, place)
        assert "".join(piece.removeprefix(MARK) for piece in cut) == word
        assert [piece.startswith(MARK) for piece in cut] == [False] + [True] * (len(cut) - 1)
        for piece in cut:
            uses[piece] += count
        for pair in pairwise(cut):
            pairs[pair] += count
        place += len(word)
    assert uses_of(merger) == uses
    assert merger.total == uses.total()
    kept = {
        (merger.pieces[merger.left[i]], merger.pieces[merger.right[i]]): int(merger.pair_count[i])
        for i in range(1, merger.num_pairs)
        if merger.pair_count[i]
    }
    assert kept == dict(pairs)


@settings(max_examples=50)
@given(WORDS, st.sampled_from(["likelihood", "frequency"]))
def test_one_merge_a_round_is_the_textbook_loop(words: dict[str, int], criterion: str) -> None:
    rule = LIKELIHOOD if criterion == "likelihood" else FREQUENCY
    ordered = dict(sorted(words.items()))
    merger = Merger(list(ordered), list(ordered.values()))
    size = len(merger.pieces) + 6
    merger.train(size, rule, near=1.0, one_a_round=True)
    by_hand = learn_by_hand(ordered, size, criterion)
    characters = len({piece for piece in by_hand if len(piece.removeprefix(MARK)) == 1})
    assert set(merger.pieces[:characters]) == set(by_hand[:characters])
    assert merger.pieces[characters:] == by_hand[characters:]


def test_runs_merge_every_second_from_the_left() -> None:
    merger = Merger(["xaaaaa"], [3])
    merger.train(len(merger.pieces) + 1, FREQUENCY)
    assert cut_of(merger, 0) == ["x", "##aa", "##aa", "##a"]


def test_frequency_and_likelihood_choose_differently() -> None:
    """ "ab" is more frequent than "xy", but a and b are everywhere; x and y are never apart."""
    words = {"ab": 120, "a": 900, "cb": 300, "b": 900, "xy": 100, "c": 900}
    first = {}
    for name, rule in (("likelihood", LIKELIHOOD), ("frequency", FREQUENCY)):
        merger = Merger(list(words), list(words.values()))
        characters = len(merger.pieces)
        merger.train(characters + 2, rule)
        first[name] = merger.pieces[characters:]
    assert first == {"likelihood": ["xy", "cb"], "frequency": ["cb", "ab"]}


def test_order_of_words_does_not_matter() -> None:
    words = {"low": 5, "lower": 2, "newest": 6, "widest": 3, "lowest": 4}
    results = []
    for ordered in (sorted(words.items()), sorted(words.items(), reverse=True)):
        merger = Merger([w for w, _ in ordered], [n for _, n in ordered])
        merger.train(len(merger.pieces) + 8, LIKELIHOOD)
        results.append(merger.pieces)
    assert results[0] == results[1]


# Sennrich et al. 2016, section 3.2
SENNRICH = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def test_first_merges_of_the_bpe_paper() -> None:
    merger = Merger(list(SENNRICH), list(SENNRICH.values()))
    characters = len(merger.pieces)
    merger.train(characters + 3, FREQUENCY)
    assert merger.pieces[characters:] == ["##es", "##est", "##ow"]  # "lo" ties: 7 times too


def test_stops_when_every_word_is_whole() -> None:
    merger = Merger(["ab", "abc"], [2, 1])
    merger.train(100, FREQUENCY)
    assert merger.pieces[-2:] == ["ab", "abc"]
    assert merger.total == 3
