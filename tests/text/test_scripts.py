"""Words of any script: what metrics, baselines and pages count."""

from __future__ import annotations

import pytest

from bertwright.text.scripts import is_word, length_in_words, words_of, writing


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't stop: café!", ["Don", "t", "stop", "café"]),
        ("मैं घर में हूँ।", ["मैं", "घर", "में", "हूँ"]),
        ("Привет, мир", ["Привет", "мир"]),
        ("我用 Python 写", ["我", "用", "Python", "写"]),
        ("ありがとう", list("ありがとう")),
        ("ที่นี่", ["ที่", "นี่"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["a quiet film", "we met at a café by the sea", *["it is in a room"] * 20], "ascii"),
        (["für die Häuser"], "blanks"),
        (["Привет"], "blanks"),
        (["안녕 하세요"], "blanks"),
        (["今天下雨。", "ok"], "han"),
        (["彼は東京に住む。"], "kana"),
        (["ฉันอยู่บ้าน"], "other-without-blanks"),
        ([""], "ascii"),
    ],
)
def test_writing(texts: list[str], found: str) -> None:
    assert writing(texts) == found


def test_length_and_whole_words() -> None:
    assert length_in_words("one two, three") == 3
    assert length_in_words("今天下雨") == 2
    assert is_word("मैं")
    assert is_word("word")
    assert not any(map(is_word, ("##s", "a1", "", "\u0301")))
