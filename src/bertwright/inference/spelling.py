"""A small character model that says what the spelling of a word costs, in bits.

A model that writes [UNK] for a word has not said which word it is. To compare models of different
vocabularies, an unknown word is charged its spelling too: its characters and the end of the word,
by interpolated n-grams of characters with Witten and Bell's weights (Chen and Goodman 1998, section
2.4), counted over distinct words, as unknown words are rare ones. Below order 1 every character of
Unicode is equally likely, so that any word can be spelled.

    p(c | h) = (n(h c) + T(h) p(c | h')) / (n(h) + T(h))

with n(h c) how often c comes after h, T(h) the number of different characters after h, and h' the
history h without its first character.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from bertwright.text.tokenizer.tokenizer import Tokenizer

ORDER = 4
CHARACTERS = 0x110000
"""Of Unicode."""
MOST_WORDS = 100_000
_BEGIN, _END = "\x02", "\x03"


class Spelling:
    """Character n-grams of distinct words."""

    def __init__(self, words: Iterable[str], order: int = ORDER) -> None:
        """Count the characters of words; `order` is the length of the longest n-grams."""
        self._history = order - 1
        self._after: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.words = 0
        """Distinct words that were counted."""
        for word in set(words):
            self.words += 1
            padded = _BEGIN * self._history + word + _END
            for end in range(self._history, len(padded)):
                for length in range(self._history + 1):
                    self._after[padded[end - length : end]][padded[end]] += 1
        self._sums = {history: after.total() for history, after in self._after.items()}

    def bits(self, word: str) -> float:
        """Return the bits that the spelling of a word takes, its end included."""
        padded = _BEGIN * self._history + word + _END
        places = range(self._history, len(padded))
        return -sum(math.log2(self._probability(padded, place)) for place in places)

    def _probability(self, padded: str, place: int) -> float:
        """The probability of the character at a place after those before it."""
        p = 1 / CHARACTERS
        for length in range(self._history + 1):
            after = self._after.get(padded[place - length : place])
            if after is None:
                break
            kinds, total = len(after), self._sums[padded[place - length : place]]
            p = (after[padded[place]] + kinds * p) / (total + kinds)
        return p


def vocabulary_words(tokenizers: Sequence[Tokenizer]) -> set[str]:
    """Return the words in vocabularies: entries without the marks of subwords, special tokens left
    out."""
    found: set[str] = set()
    for tokenizer in tokenizers:
        special = tokenizer.special_ids
        entries = (token for token, index in tokenizer.vocab.items() if index not in special)
        found.update(token.removeprefix("##").lstrip("\u0120\u2581") for token in entries)
    return {word for word in found if word}


def unknown_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return what stands in a text where the tokenizer writes [UNK], as its rules normalize it."""
    encoding = tokenizer.encode(text)
    spans = zip(encoding.ids, encoding.offsets, strict=True)
    unknown = [text[start:stop] for index, (start, stop) in spans if index == tokenizer.unk_id]
    if tokenizer.file_words is not None:
        return unknown
    return [tokenizer.normalized(word) for word in unknown]
