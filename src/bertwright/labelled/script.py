"""Which script texts are in: what cuts English into words leaves Chinese whole."""

from __future__ import annotations

from collections.abc import Iterable

from bertwright.text.tokenizer.normalize import is_chinese


def is_mostly_chinese(texts: Iterable[str]) -> bool:
    """Whether more than half of the letters of all texts are CJK ideographs."""
    chinese = letters = 0
    for text in texts:
        letters += sum(map(str.isalpha, text))
        if not text.isascii():
            chinese += sum(map(is_chinese, text))
    return chinese > letters / 2
