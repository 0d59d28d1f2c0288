"""Split text of any script into words, for metrics, baselines and pages.

A word is a run of letters, digits and their combining marks (Python's `\\w` does not include the
vowel signs of Devanagari). In scripts that are written without blanks between words (Chinese,
Japanese, Thai, Lao, Khmer, Burmese, Tibetan) a word is one character with its marks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d"
_SOUTH_EAST = "\u0e01-\u0e4e\u0e81-\u0ede\u0f00-\u0fbc\u1000-\u104f\u1780-\u17d3\ua9e0-\uaa7f"
_ALL = re.compile(f"[{_HAN}{_KANA}{_SOUTH_EAST}]")
_KANA_LETTER = re.compile(f"[{_KANA}]")
_HAN_OR_KANA = re.compile(f"[{_HAN}{_KANA}]")


@lru_cache(maxsize=1)
def _marks() -> str:
    """Return all combining marks of Unicode, as the inside of a character class of a regular
    expression.
    """
    codes = [*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)]
    runs: list[list[int]] = []
    for code in codes:
        if unicodedata.category(chr(code))[0] != "M":
            continue
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in runs)


@lru_cache(maxsize=1)
def word_pattern() -> str:
    """Return a regular expression for one word; `_` counts as a letter, as in Python's `\\w`."""
    marks, alone = _marks(), f"{_HAN}{_KANA}{_SOUTH_EAST}"
    single = f"[{alone}][{marks}]*"
    run = f"(?:(?![{alone}])[\\w{marks}])+"
    return f"{single}|{run}"


@lru_cache(maxsize=1)
def _word() -> re.Pattern[str]:
    return re.compile(word_pattern())


def words_of(text: str) -> list[str]:
    """Return the words of a text, without punctuation and symbols."""
    return _word().findall(text)


def length_in_words(text: str) -> float:
    """Return the number of words of a text; two characters of a script without blanks count as
    one.
    """
    words = words_of(text)
    alone = sum(1 for word in words if _ALL.match(word))
    return len(words) - alone / 2


def is_word(token: str) -> bool:
    """Return whether a token consists of letters and their marks only."""
    return any(map(str.isalpha, token)) and all(
        character.isalpha() or unicodedata.category(character)[0] == "M" for character in token
    )


def writing(texts: Iterable[str]) -> str:
    """Return how most letters of the texts are written.

    The result is `han` (Chinese), `kana` (Japanese, also with Chinese characters),
    `other-without-blanks` (Thai, Lao, Khmer, Burmese, Tibetan), `ascii` (fewer than 2 of 100 words
    have a letter other than a to z), or `blanks` (other scripts with blanks between words).
    """
    letters = alone = chinese_or_kana = kana = words = beyond = 0
    for text in texts:
        if text.isascii():
            letters += sum(map(str.isalpha, text))
            words += len(text.split())
            continue
        letters += sum(map(str.isalpha, text))
        alone += len(_ALL.findall(text))
        chinese_or_kana += len(_HAN_OR_KANA.findall(text))
        kana += len(_KANA_LETTER.findall(text))
        for word in text.split():
            words += 1
            beyond += any(c.isalpha() and not c.isascii() for c in word)
    if alone > letters / 2:
        if chinese_or_kana <= alone / 2:
            return "other-without-blanks"
        return "kana" if kana > chinese_or_kana / 10 else "han"
    return "blanks" if beyond * 50 >= max(1, words) else "ascii"


def without_blanks(texts: Iterable[str]) -> bool:
    """Return whether most letters of the texts belong to scripts without blanks between words."""
    return writing(texts) not in ("ascii", "blanks")
