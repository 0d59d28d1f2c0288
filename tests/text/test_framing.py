"""Framing: special tokens around texts, segments, and where the texts stand."""

from __future__ import annotations

import pytest

from bertwright.text.framing import Framing

CLS, SEP = 2, 3


@pytest.mark.parametrize("framing", [Framing((CLS,), (SEP,)), Framing()], ids=["cls-sep", "bare"])
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
