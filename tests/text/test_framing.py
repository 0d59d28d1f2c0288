"""Framing: special tokens around texts, segments, and where the texts stand."""

from __future__ import annotations

import numpy as np
import pytest

from bertwright.text.framing import Framing, framing_of

CLS, SEP = 2, 3
FRAMINGS = {
    "cls-sep": Framing((CLS,), (SEP,)),
    "two-seps": Framing((CLS,), (SEP,), (SEP,)),
    "bare": Framing(),
}


@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
@pytest.mark.parametrize(("first", "second"), [([7, 8, 9], [5]), ([], [6, 7]), ([4], [])])
def test_parts_agree(framing: Framing, first: list[int], second: list[int]) -> None:
    one, two = framing.one(first), framing.two(first, second)
    (inside,) = framing.inside(len(first))
    a, b = framing.inside(len(first), len(second))
    assert one[inside] == first
    assert (two[a], two[b]) == (first, second)
    assert len(one) == len(first) + framing.special_tokens()
    assert len(two) == len(first) + len(second) + framing.special_tokens(paired=True)
    assert framing.segments(len(first)) == [0] * len(one)
    segments = framing.segments(len(first), len(second))
    assert len(segments) == len(two)
    assert segments[a] == [0] * len(first)
    assert segments[b] == [1] * len(second)


def test_as_bert_has_it() -> None:
    framing = Framing((CLS,), (SEP,))
    assert framing.one([7, 8]) == [CLS, 7, 8, SEP]
    assert framing.two([7, 8], [9]) == [CLS, 7, 8, SEP, 9, SEP]
    assert framing.segments(2, 1) == [0, 0, 0, 0, 1, 1]


def test_as_roberta_has_it() -> None:
    framing = FRAMINGS["two-seps"]
    assert framing.one([7, 8]) == [CLS, 7, 8, SEP]
    assert framing.two([7, 8], [9]) == [CLS, 7, 8, SEP, SEP, 9, SEP]


@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
@pytest.mark.parametrize("paired", [False, True])
def test_arrays_are_framed_as_lists(framing: Framing, paired: bool) -> None:
    pairs = [([7, 8, 9], [5]), ([4], [6, 7]), ([], [11]), ([10, 12], [])]
    first, second = (np.array([len(pair[n]) for pair in pairs]) for n in (0, 1))
    frames = framing.frames(first, second if paired else None)
    frames.ids[frames.first] = [token for a, _ in pairs for token in a]
    lists = [framing.two(a, b) if paired else framing.one(a) for a, b in pairs]
    if paired:
        frames.ids[frames.second] = [token for _, b in pairs for token in b]
        expected = [n for a, b in pairs for n in framing.segments(len(a), len(b))]
        assert framing.segments_of(first, second).tolist() == expected
    assert frames.ids.tolist() == [token for one in lists for token in one]
    assert frames.lengths.tolist() == [len(one) for one in lists]
    assert frames.starts.tolist() == np.cumsum([0, *frames.lengths[:-1]]).tolist()


@pytest.mark.parametrize(
    "framing", [Framing((CLS,), (SEP,)), Framing(), Framing((1,))], ids=["cls-sep", "bare", "bos"]
)
def test_special_tokens_are_put_at_their_positions(framing: Framing) -> None:
    texts = [[7, 8, 9], [], [4]]
    framed = [framing.one(text) for text in texts]
    at = np.concatenate([np.arange(len(ids)) for ids in framed])
    lengths = np.repeat([len(text) for text in texts], [len(ids) for ids in framed])
    tokens = np.array([n for ids in framed for n in ids])
    special = np.isin(tokens, [*framing.begin, *framing.end])
    given = np.where(special, 0, tokens)
    framing.put(given, at, lengths)
    assert given.tolist() == tokens.tolist()


def test_a_vocabulary_frames_by_its_own_tokens() -> None:
    assert framing_of({"cls": 2, "sep": 3, "bos": 5, "eos": 6}) == Framing((2,), (3,))
    assert framing_of({"bos": 5, "eos": 6}) == Framing((5,), (6,))
    assert framing_of({"bos": 5}) == Framing()
