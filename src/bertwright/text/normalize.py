"""BERT's published rules for cutting text into words and words into pieces, in plain Python.

Source: google-research/bert, `tokenization.py`, `BasicTokenizer` and `WordpieceTokenizer`. These
functions are the yardstick: `text.tokenizer` runs the `tokenizers` library, which is a rewrite with
its own tables of Unicode, and the tests hold one against the other. The characters on which the two
differ are listed in docs/tokenizer.md. They are also what `bertwright tokenizer inspect` shows.
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


def basic_tokenize(
    text: str,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    chinese_characters: bool = True,
) -> list[str]:
    """The words of `text`. `strip_accents` None means as `lowercase`, as published."""
    text = clean_text(text)
    if chinese_characters:
        text = split_chinese(text)
    words: list[str] = []
    for word in text.split():
        if lowercase:
            word = word.lower()
        if lowercase if strip_accents is None else strip_accents:
            word = remove_accents(word)
        words.extend(split_punctuation(word))
    return " ".join(words).split()


def longest_match(
    word: str, vocab: Mapping[str, Value], mark: str = "##", inside: bool = False
) -> list[Value] | None:
    """Cut `word` into the longest pieces of `vocab` from left to right; None if no piece fits.

    Returns what `vocab` holds for each piece. Pieces after the first carry `mark`, with `inside`
    the first too.
    """
    found: list[Value] = []
    rest = mark + word if inside else word
    least = len(mark) if inside else 0
    while len(rest) > least:
        stop = len(rest)
        while (value := vocab.get(rest[:stop])) is None:
            stop -= 1
            if stop <= least:
                return None
        found.append(value)
        rest = mark + rest[stop:]
        least = len(mark)
    return found


def clean_text(text: str) -> str:
    """Drop NUL, U+FFFD and control characters; make every white space a blank."""
    kept = []
    for character in text:
        if character in "\0\ufffd" or is_control(character):
            continue
        kept.append(" " if is_white_space(character) else character)
    return "".join(kept)


def split_chinese(text: str) -> str:
    """Put blanks around every Chinese character (kana and hangul are written like words)."""
    return "".join(f" {c} " if is_chinese(c) else c for c in text)


def remove_accents(text: str) -> str:
    """Drop the combining marks of the decomposed text."""
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def split_punctuation(word: str) -> list[str]:
    """Make every punctuation mark of `word` a word of its own."""
    parts: list[str] = []
    open_part = False
    for character in word:
        mark = is_punctuation(character)
        if mark or not open_part:
            parts.append(character)
        else:
            parts[-1] += character
        open_part = not mark
    return parts


def is_control(character: str) -> bool:
    """Control and format characters, but not tab and line ends."""
    return character not in "\t\n\r" and unicodedata.category(character) in ("Cc", "Cf")


def is_white_space(character: str) -> bool:
    """Blank, tab, line ends and the spaces of Unicode."""
    return character in " \t\n\r" or unicodedata.category(character) == "Zs"


def is_punctuation(character: str) -> bool:
    """ASCII that is no letter, digit or control ("$" and "^" too), and Unicode's punctuation."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")


def is_chinese(character: str) -> bool:
    """Whether the character is in a block of CJK ideographs."""
    code = ord(character)
    return code >= 0x3400 and any(first <= code <= last for first, last in _CHINESE)
