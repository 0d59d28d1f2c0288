"""A small character model that computes how many bits the spelling of a word takes.

A model that predicts [UNK] for a word does not predict which word it is. To compare models with
different vocabularies, the bits of an unknown word include its spelling: its characters and the end
of the word. They are predicted by interpolated character n-grams with the weights of Witten and
Bell (Chen and Goodman 1998, section 2.4). The n-grams are counted over distinct words, because
unknown words are rare words. Below order 1, all characters of Unicode are equally likely, so that
any word can be spelled.

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
"""The number of code points of Unicode."""
MOST_WORDS = 100_000
_BEGIN, _END = "\x02", "\x03"


class Spelling:
    """Character n-grams of distinct words."""

    def __init__(self, words: Iterable[str], order: int = ORDER) -> None:
        """Count the characters of words; `order` is the length of the longest n-grams."""
        self._history = order - 1
        self._after: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.words = 0
        """The number of distinct words that were counted."""
        for word in set(words):
            self.words += 1
            padded = _BEGIN * self._history + word + _END
            for end in range(self._history, len(padded)):
                for length in range(self._history + 1):
                    self._after[padded[end - length : end]][padded[end]] += 1
        self._sums = {history: after.total() for history, after in self._after.items()}

    def bits(self, word: str) -> float:
        """Return the number of bits of a word's spelling, including the end of the word."""
        padded = _BEGIN * self._history + word + _END
        places = range(self._history, len(padded))
        return -sum(math.log2(self.probability(padded, place)) for place in places)

    def probability(self, padded: str, place: int) -> float:
        """Return the probability of the character at `place`, given the characters before it."""
        p = 1 / CHARACTERS
        for length in range(self._history + 1):
            after = self._after.get(padded[place - length : place])
            if after is None:
                break
            kinds, total = len(after), self._sums[padded[place - length : place]]
            p = (after[padded[place]] + kinds * p) / (total + kinds)
        return p


def vocabulary_words(tokenizers: Sequence[Tokenizer]) -> set[str]:
    """Return the words of several vocabularies: their entries except special tokens, without the
    marks of subwords.
    """
    found: set[str] = set()
    for tokenizer in tokenizers:
        special = tokenizer.special_ids
        entries = (token for token, index in tokenizer.vocab.items() if index not in special)
        found.update(token.removeprefix("##").lstrip("\u0120\u2581") for token in entries)
    return {word for word in found if word}


def unknown_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the words of a text that the tokenizer replaces by [UNK].

    They are normalized by the tokenizer's rules, unless the tokenizer reads texts in the words of a
    file of vectors or n-grams.
    """
    encoding = tokenizer.encode(text)
    spans = zip(encoding.ids, encoding.offsets, strict=True)
    unknown = [text[start:stop] for index, (start, stop) in spans if index == tokenizer.unk_id]
    if tokenizer.file_words is not None:
        return unknown
    return [tokenizer.normalized(word) for word in unknown]
