"""Words of plain text, with their characters, for taggers that learned from words."""

from __future__ import annotations

import re

from bertwright.text.tokenizer.normalize import is_chinese, is_punctuation

_SOLID = re.compile(r"\S+")
_MARK = re.compile("[\u3001-\u303f\uff01-\uff65]")
"""The blocks of the marks of Chinese and Japanese: 。、「」 and wide or narrow forms."""


def split_words(text: str) -> list[tuple[int, int]]:
    """The first character of each word and one after its last.

    Cut at white space; punctuation around a word, each Chinese character and each mark of Chinese
    and Japanese stand alone. Other punctuation within a word stays: `U.S`, `e-mail`, `don't`,
    `ジョン・スミス`.
    """
    words: list[tuple[int, int]] = []
    for solid in _SOLID.finditer(text):
        for start, end in _apart(text, *solid.span()):
            first, last = start, end
            while first < last and is_punctuation(text[first]):
                first += 1
            while last > first and is_punctuation(text[last - 1]):
                last -= 1
            words.extend((place, place + 1) for place in range(start, first))
            if first < last:
                words.append((first, last))
            words.extend((place, place + 1) for place in range(last, end))
    return words


def _apart(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Parts between characters that always stand alone, and these."""
    parts: list[tuple[int, int]] = []
    open_at = start
    for place in range(start, end):
        if is_chinese(text[place]) or (_MARK.match(text[place]) and is_punctuation(text[place])):
            if open_at < place:
                parts.append((open_at, place))
            parts.append((place, place + 1))
            open_at = place + 1
    if open_at < end:
        parts.append((open_at, end))
    return parts
