"""Windows: all is covered, none is too long, neighbours share what was asked."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from bertwright.text.windows import (
    most_context,
    split,
    split_pair,
    truncate_pair,
    window_around,
)

ROOMS = st.integers(1, 40)


@given(length=st.integers(0, 300), room=ROOMS, stride=st.integers(0, 25))
def test_windows_cover_all_and_share(length: int, room: int, stride: int) -> None:
    spans = split(length, room, stride)
    assert spans[0][0] == 0
    assert spans[-1][1] == length
    sizes = [stop - start for start, stop in spans]
    assert max(sizes) <= room
    assert max(sizes) - min(sizes) <= 1
    shared = min(stride, room // 2)
    for (_, stop), (start, _) in pairwise(spans):
        assert stop - start == shared
    # One window fewer would be too long.
    if len(spans) > 1:
        assert length + (len(spans) - 2) * shared > (len(spans) - 1) * room


def test_what_fits_is_one_window() -> None:
    assert split(0, 5, 2) == [(0, 0)]
    assert split(5, 5, 2) == [(0, 5)]
    assert split(6, 5, 2) == [(0, 4), (2, 6)]
    with pytest.raises(ValueError, match=r"0 tokens.*1"):
        split(5, 0, 0)


@given(
    first=st.integers(0, 120),
    second=st.integers(0, 120),
    room=st.integers(2, 40),
    stride=st.integers(0, 25),
)
def test_pairs_lose_nothing(first: int, second: int, room: int, stride: int) -> None:
    pairs = split_pair(first, second, room, stride)
    for length, spans in ((first, [p[0] for p in pairs]), (second, [p[1] for p in pairs])):
        covered = {place for start, stop in spans for place in range(start, stop)}
        assert covered == set(range(length))
        assert all(0 <= start <= stop <= length for start, stop in spans)
        for (_, stop), (start, _) in pairwise(spans):
            assert stop - start >= min(stride, room // 2 // 2, length)
    assert all(b - a + d - c <= room for (a, b), (c, d) in pairs)
    assert len(set(pairs)) == len(pairs)


def test_a_pair_keeps_the_text_that_takes_half_whole() -> None:
    assert split_pair(4, 6, 10, 2) == [((0, 4), (0, 6))]
    assert split_pair(5, 8, 10, 2) == [((0, 5), (0, 5)), ((0, 5), (3, 8))]
    assert split_pair(8, 5, 10, 2) == [((0, 5), (0, 5)), ((3, 8), (0, 5))]
    assert split_pair(6, 8, 10, 2) == [((0, 5), (0, 5)), ((1, 6), (3, 8))]
    with pytest.raises(ValueError, match=r"1 tokens.*2"):
        split_pair(3, 3, 1, 0)


@given(length=st.integers(1, 200), room=ROOMS, stride=st.integers(0, 25), data=st.data())
def test_most_context(length: int, room: int, stride: int, data: st.DataObject) -> None:
    spans = split(length, room, stride)
    place = data.draw(st.integers(0, length - 1))
    (number,) = most_context(spans, [place])

    def context(span: tuple[int, int]) -> int:
        return min(place - span[0], span[1] - 1 - place)

    best = max(context(span) for span in spans if span[0] <= place < span[1])
    assert [context(span) == best for span in spans].index(True) == number


def test_most_context_by_hand() -> None:
    # run_squad.py: of the two windows that hold "bought", the one with more to its lesser side.
    spans = [(0, 5), (3, 8), (6, 11)]
    assert most_context(spans, range(11)).tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2]


@given(st.integers(0, 50), st.integers(0, 50), st.integers(2, 40))
def test_a_truncated_pair_keeps_half_of_each_or_more(a: int, b: int, room: int) -> None:
    kept_a, kept_b = truncate_pair(a, b, room)
    assert 0 <= kept_a <= a
    assert 0 <= kept_b <= b
    assert kept_a + kept_b == min(a + b, room)
    assert min(kept_a, kept_b) >= min(a, b, room // 2)


@pytest.mark.parametrize("room", [2, 3, 8, 9])
def test_pairs_are_truncated_as_by_transformers(room: int) -> None:
    words = tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a")
    theirs = tokenizers.Tokenizer(words)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    theirs.enable_truncation(room, strategy="longest_first")
    for a, b in product(range(1, 14), repeat=2):
        kept = theirs.encode("a " * a, "b " * b).ids
        assert truncate_pair(a, b, room) == (kept.count(0), kept.count(1)), (a, b)


@given(st.integers(1, 100), st.integers(1, 30), st.data())
def test_a_window_holds_its_position(length: int, room: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, length - 1))
    start, stop = window_around(position, length, room)
    assert 0 <= start <= position < stop <= length
    assert stop - start == min(length, room)
