"""Words of plain text, with their characters, for taggers that learned from words."""

from __future__ import annotations

import re
from collections.abc import Callable

from bertwright.text.normalize import is_chinese, is_punctuation

WordSplitter = Callable[[str], list[tuple[int, int]]]
"""From a text to the first character of each word and one after its last."""

_SOLID = re.compile(r"\S+")


def split_words(text: str) -> list[tuple[int, int]]:
    """Cut at white space; punctuation around a word and each Chinese character stand alone.

    Punctuation within a word stays: `U.S`, `e-mail`, `don't`.
    """
    words: list[tuple[int, int]] = []
    for solid in _SOLID.finditer(text):
        for start, end in _at_chinese(text, *solid.span()):
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


def _at_chinese(text: str, start: int, end: int) -> list[tuple[int, int]]:
    parts: list[tuple[int, int]] = []
    open_at = start
    for place in range(start, end):
        if is_chinese(text[place]):
            if open_at < place:
                parts.append((open_at, place))
            parts.append((place, place + 1))
            open_at = place + 1
    if open_at < end:
        parts.append((open_at, end))
    return parts
