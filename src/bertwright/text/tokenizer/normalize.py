"""BERT's published rules in plain Python: which characters are words alone, and how pieces are cut.

Source: google-research/bert, `tokenization.py`, `BasicTokenizer` and `WordpieceTokenizer`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import TypeVar

Value = TypeVar("Value")

_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def longest_match(
    word: str, vocab: Mapping[str, Value], inside: bool = False
) -> list[Value] | None:
    """Cut `word` into the longest pieces of `vocab` from left to right; None if no piece fits.

    Returns what `vocab` holds for each piece. Pieces after the first carry "##", with `inside`
    the first too.
    """
    found: list[Value] = []
    rest = "##" + word if inside else word
    least = 2 if inside else 0
    while len(rest) > least:
        stop = len(rest)
        while (value := vocab.get(rest[:stop])) is None:
            stop -= 1
            if stop <= least:
                return None
        found.append(value)
        rest = "##" + rest[stop:]
        least = 2
    return found


def is_punctuation(character: str) -> bool:
    """ASCII that is no letter, digit or control ("$" and "^" too), and Unicode's punctuation."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")


def is_chinese(character: str) -> bool:
    """Whether the character is in a block of CJK ideographs."""
    code = ord(character)
    return code >= 0x3400 and any(first <= code <= last for first, last in _CHINESE)
