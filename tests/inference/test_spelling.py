"""What the spelling of unknown words costs."""

from __future__ import annotations

import math

import pytest

from bertwright.inference.spelling import Spelling, unknown_words, vocabulary_words
from bertwright.text.tokenizer.tokenizer import make_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def test_probabilities_are_witten_and_bells() -> None:
    spelling = Spelling(["ab"], order=1)
    # of three events, a, b and the end, each was seen once: (1 + 3 / V) / (3 + 3) each
    p = (1 + 3 / 0x110000) / 6
    assert spelling.bits("ab") == pytest.approx(-3 * math.log2(p))


def test_probabilities_of_what_follows_sum_to_one() -> None:
    spelling = Spelling(["tea", "ten", "toe", "x"], order=3)
    seen = {character for word in ("tea", "ten", "toe", "x") for character in word} | {"\x03"}
    total = sum(spelling.probability(f"\x02\x02t{c}", 3) for c in seen)
    unseen = (0x110000 - len(seen)) * spelling.probability("\x02\x02tq", 3)
    assert total + unseen == pytest.approx(1)


def test_words_like_the_known_ones_cost_less_and_any_word_can_be_spelled() -> None:
    spelling = Spelling(["walking", "talking", "walked", "talked"])
    assert spelling.words == 4
    assert spelling.bits("walks") < spelling.bits("xqzkj")
    assert math.isfinite(spelling.bits("\U0001f600"))


def test_unknown_words_are_read_as_the_tokenizer_reads_them() -> None:
    tokenizer = make_tokenizer([*SPECIAL, "a", "dog", "##s", "."])
    assert unknown_words(tokenizer, "A DOG saw Dogs.") == ["saw"]
    assert vocabulary_words([tokenizer]) == {"a", "dog", "s", "."}
