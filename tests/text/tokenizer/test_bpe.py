"""Merging by frequency, on the example of the paper."""

from __future__ import annotations

from bertwright.text.tokenizer.bpe import FREQUENCY
from bertwright.text.tokenizer.merges import Merger

# Sennrich et al. 2016, section 3.2
PAPER = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def test_first_merges_of_the_paper() -> None:
    merger = Merger(list(PAPER), list(PAPER.values()))
    characters = len(merger.pieces)
    merger.learn(characters + 3, FREQUENCY)
    assert merger.pieces[characters:] == ["##es", "##est", "##ow"]  # "lo" ties: 7 times too


def test_stops_when_every_word_is_whole() -> None:
    merger = Merger(["ab", "abc"], [2, 1])
    merger.learn(100, FREQUENCY)
    assert merger.pieces[-2:] == ["ab", "abc"]
    assert merger.total == 3
