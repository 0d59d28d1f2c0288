"""The published rules, by hand-made cases and against google-research/bert's own test cases."""

from __future__ import annotations

import pytest

from bertwright.text.tokenizer.normalize import longest_match
from tests.text.published_rules import basic_tokenize


@pytest.mark.parametrize(
    ("text", "lowercase", "words"),
    [
        # the first four are the cases of google-research/bert, tokenization_test.py
        (" \tHeLLo!how  \n Are yoU?  ", True, ["hello", "!", "how", "are", "you", "?"]),
        ("H\u00e9llo", True, ["hello"]),
        (" \tHeLLo!how  \n Are yoU?  ", False, ["HeLLo", "!", "how", "Are", "yoU", "?"]),
        ("ah\u535a\u63a8zz", True, ["ah", "\u535a", "\u63a8", "zz"]),
        ("H\u00e9llo", False, ["H\u00e9llo"]),
        ("$5 a^b", True, ["$", "5", "a", "^", "b"]),
        ("a\u00ad\u200bb\x00\ufffd", True, ["ab"]),
        ("a\u00a0b\u3000c\u2028d", True, ["a", "b", "c", "d"]),
        ("\u0130stanbul", True, ["istanbul"]),
        ("a--b. c\td\x07", True, ["a", "-", "-", "b", ".", "c", "d"]),
        ("a\ud800b", True, ["a\ud800b"]),  # a lone surrogate is no control
        ("", True, []),
    ],
)
def test_words_of_the_published_rules(text: str, lowercase: bool, words: list[str]) -> None:
    assert basic_tokenize(text, lowercase=lowercase) == words


def test_accents_and_case_are_independent_when_asked() -> None:
    assert basic_tokenize("\u00c9t\u00e9", lowercase=True, strip_accents=False) == ["\u00e9t\u00e9"]
    assert basic_tokenize("\u00c9t\u00e9", lowercase=False, strip_accents=True) == ["Ete"]


def test_chinese_characters_stay_together_when_asked() -> None:
    assert basic_tokenize("\u535a\u63a8", chinese_characters=False) == ["\u535a\u63a8"]


def test_longest_match_cases_of_the_published_test() -> None:
    entries = ["[UNK]", "[CLS]", "[SEP]", "want", "##want", "##ed", "wa", "un", "runn", "##ing"]
    vocab = {entry: entry for entry in entries}
    assert longest_match("unwanted", vocab) == ["un", "##want", "##ed"]
    assert longest_match("running", vocab) == ["runn", "##ing"]
    assert longest_match("unwantedX", vocab) is None
    assert longest_match("", vocab) == []


def test_longest_match_inside_a_word() -> None:
    vocab = {"##a": 1, "##ab": 2, "a": 3}
    assert longest_match("aba", vocab, inside=True) == [2, 1]
    assert longest_match("b", vocab, inside=True) is None
