"""BERT's published rules in plain Python: what splits a text, and how a word is matched.

Source: google-research/bert, `tokenization.py`, `BasicTokenizer` and `WordpieceTokenizer`. The
rules look at one character at a time: controls go; white space, punctuation and Chinese characters
end a word. So a text may be split at these characters and each part be tokenized alone, remembered,
counted: the result is the same as for the whole. `split_chunks` and `split_parts` know a subset of
those characters, the ones all versions of Unicode agree on.
"""

from __future__ import annotations

import re
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
    """Spell `word` by the longest entries of `vocab` from left to right; None if none fits.

    Returns what `vocab` holds for each entry. Those after the first carry "##", with `inside` the
    first too.
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


# Python's str.split also splits at these, but to BERT they are controls and vanish.
_VANISHING = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
_VANISHING_MARK = re.compile(f"[{_VANISHING}]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_PUNCTUATION = r"!-/:-@\[-`{-~\u2010-\u2027\u2030-\u2043\u3001-\u3003\u3008-\u3011\uff01-\uff03"
_PUNCTUATION += r"\uff05-\uff0a\uff0c-\uff0f\uff1a\uff1b\uff1f\uff20"
_CHINESE_CLASS = r"\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002a6df\uf900-\ufaff"

_PARTS = {
    True: re.compile(f"[{_PUNCTUATION}{_CHINESE_CLASS}]|[^{_PUNCTUATION}{_CHINESE_CLASS}\\s]+"),
    False: re.compile(f"[{_PUNCTUATION}]|[^{_PUNCTUATION}\\s]+"),
}


def split_chunks(text: str) -> list[str]:
    """Split `text` at what is white space to BERT."""
    if any(mark in text for mark in _VANISHING):  # seven scans in C, much faster than the pattern
        text = _VANISHING_MARK.sub("", text)
    return text.split()


def split_parts(text: str, chinese_characters: bool = True) -> list[str]:
    """Split `text` into parts that BERT never joins: single marks and what stands between them."""
    return _PARTS[chinese_characters].findall(_VANISHING_MARK.sub("", text))


def is_plain(part: str) -> bool:
    """Whether `part` is ASCII letters and digits, which need no rule but lower case."""
    return part.isascii() and part.isalnum()


def drop_surrogates(text: str) -> str:
    """`text` with every lone surrogate as U+FFFD, which BERT's cleaning drops; as long as before.

    A surrogate is no character and has no UTF-8 form; it comes in through `"\\ud800"` in JSON.
    """
    return _SURROGATE.sub("\ufffd", text)
