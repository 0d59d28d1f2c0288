"""BERT's published rules for cutting a text into words, in plain Python: the yardstick.

Source: google-research/bert, `tokenization.py`, `BasicTokenizer`. `text.tokenizer` runs the
`tokenizers` library, which is a rewrite with its own tables of Unicode; the tests hold one against
the other. The characters on which the two differ are listed in docs/howto/tokenizer.md.
"""

from __future__ import annotations

import unicodedata

from bertwright.text.tokenizer.normalize import is_chinese, is_punctuation


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
