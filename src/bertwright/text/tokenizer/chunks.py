"""Cutting text where BERT cuts it whatever stands around: the part of tokenization that is local.

BERT's rules (google-research/bert, `BasicTokenizer`) look at one character at a time: controls go,
white space, punctuation and Chinese characters end a word. So a text may be cut at these characters
and each part be treated alone, remembered, counted: the result is the same as for the whole. The
characters listed here are a subset of those rules, the ones all versions of Unicode agree on.
"""

from __future__ import annotations

import re

# Python's str.split also cuts at these, but to BERT they are controls and vanish without a trace.
_VANISHING = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
_VANISHING_MARK = re.compile(f"[{_VANISHING}]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_PUNCTUATION = r"!-/:-@\[-`{-~\u2010-\u2027\u2030-\u2043\u3001-\u3003\u3008-\u3011\uff01-\uff03"
_PUNCTUATION += r"\uff05-\uff0a\uff0c-\uff0f\uff1a\uff1b\uff1f\uff20"
_CHINESE = r"\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002a6df\uf900-\ufaff"

_PARTS = {
    True: re.compile(f"[{_PUNCTUATION}{_CHINESE}]|[^{_PUNCTUATION}{_CHINESE}\\s]+"),
    False: re.compile(f"[{_PUNCTUATION}]|[^{_PUNCTUATION}\\s]+"),
}


def cut_chunks(text: str) -> list[str]:
    """Cut `text` at what is white space to BERT."""
    if any(mark in text for mark in _VANISHING):  # seven scans in C, much faster than the pattern
        text = _VANISHING_MARK.sub("", text)
    return text.split()


def cut_parts(text: str, chinese_characters: bool = True) -> list[str]:
    """Cut `text` into parts that BERT never joins: single marks and what stands between them."""
    return _PARTS[chinese_characters].findall(_VANISHING_MARK.sub("", text))


def is_plain(part: str) -> bool:
    """Whether `part` is ASCII letters and digits, which need no rule but lower case."""
    return part.isascii() and part.isalnum()


def drop_surrogates(text: str) -> str:
    """`text` with every lone surrogate as U+FFFD, which BERT's cleaning drops; as long as before.

    A surrogate is no character and has no UTF-8 form; it comes in through `"\\ud800"` in JSON.
    """
    return _SURROGATE.sub("\ufffd", text)
