"""BERT's published rules in plain Python: how text is split into words, and words into wordpieces.

Source: google-research/bert, `tokenization.py`, `BasicTokenizer` and `WordpieceTokenizer`. The
rules look at one character at a time: control characters are removed; white space, punctuation and
Chinese characters end a word. So a text may be split at these characters, and each part be
tokenized, cached and counted by itself, with the same result as for the whole. `split_chunks` and
`split_parts` use a subset of those characters, on which all versions of Unicode agree.
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
    """Spell `word` by the longest entries of `vocab` from left to right; None if no entries fit.

    The result holds the values of `vocab` for the entries. Entries after the first carry "##"; with
    `inside` the first does too.
    """
    values: list[Value] = []
    rest = "##" + word if inside else word
    least = 2 if inside else 0
    while len(rest) > least:
        stop = len(rest)
        while (value := vocab.get(rest[:stop])) is None:
            stop -= 1
            if stop <= least:
                return None
        values.append(value)
        rest = "##" + rest[stop:]
        least = 2
    return values


def is_punctuation(character: str) -> bool:
    """Return whether a character is punctuation: Unicode's, or an ASCII symbol (also "$" and
    "^").
    """
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")


def is_chinese(character: str) -> bool:
    """Return whether the character is in a block of CJK ideographs."""
    code = ord(character)
    return code >= 0x3400 and any(first <= code <= last for first, last in _CHINESE)


# Python's str.split also splits at these, but for BERT they are control characters to be removed.
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
    """Split `text` at the characters that are white space for BERT."""
    if any(mark in text for mark in _VANISHING):  # seven scans in C, much faster than the pattern
        text = _VANISHING_MARK.sub("", text)
    return text.split()


def split_parts(text: str, chinese_characters: bool = True) -> list[str]:
    """Split `text` into parts that BERT never joins: single marks and the text between them."""
    return _PARTS[chinese_characters].findall(_VANISHING_MARK.sub("", text))


def is_plain(part: str) -> bool:
    """Return whether `part` consists of ASCII letters and digits, for which lower-casing is the
    only rule.
    """
    return part.isascii() and part.isalnum()


def drop_surrogates(text: str) -> str:
    """Return `text` with every lone surrogate as U+FFFD, which BERT's cleaning removes. The length
    stays.

    A surrogate is not a character and has no UTF-8 form; JSON can contain one as `"\\ud800"`.
    """
    return _SURROGATE.sub("\ufffd", text)
