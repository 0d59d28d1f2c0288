"""New entries for a vocabulary: the words of another domain that take it most tokens.

A word that occurs n times and is k tokens costs n (k - 1) tokens more than it would as one
entry; the words that cost most are added, ties by spelling, as exBERT (Tai et al. 2020) and AVocaDo
(Hong et al. 2021) add words of a domain by what they save. docs/tokenizer.md says what else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bertwright.errors import DataError
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.tokenizer.wordpiece import MARK

_MOST_CHARACTERS = 4  # at most one in so many entries is a character


@dataclass(frozen=True)
class Addition:
    """A word that joins the vocabulary."""

    token: str
    replaces: tuple[int, ...]
    """Ids of the tokens it replaces; none: a character that was not in the vocabulary."""
    count: int
    """How often it occurs."""

    @property
    def gain(self) -> int:
        """Tokens it saves in the corpus."""
        return self.count * max(0, len(self.replaces) - 1)


def choose_additions(
    counts: Mapping[str, int], tokenizer: Tokenizer, add: int, min_count: int = 5
) -> list[Addition]:
    """The entries that save most, at most `add`: characters, then words, each by falling gain.

    `counts` has words as BERT's rules split them; those rarer than `min_count` are not added.

    Raises:
        DataError: the tokenizer is not BERT's.
    """
    longest = tokenizer.rules.max_word_characters  # raises for what is no BERT WordPiece
    often = sorted(word for word, count in counts.items() if count >= min_count)
    tokens = dict(zip(often, tokenizer.encode_bare_ids(often), strict=True))
    unknown = {word for word, ids in tokens.items() if tokenizer.unk_id in ids}
    additions = _characters(unknown, counts, tokenizer, min_count)[: add // _MOST_CHARACTERS]
    words = [
        Addition(word, tuple(ids), counts[word])
        for word, ids in tokens.items()
        if len(ids) > 1
        and word not in unknown
        and len(word) <= longest
        and word not in tokenizer.vocab
        and any(character.isalpha() for character in word)
    ]
    words.sort(key=lambda each: (-each.gain, each.token))
    harmful: set[str] = set()
    while True:
        room = [each for each in words if each.token not in harmful][: add - len(additions)]
        found = [*additions, *room]
        larger = tokenizer.extended([each.token for each in found])
        lost = [
            word
            for word, ids in zip(often, larger.encode_bare_ids(often), strict=True)
            if larger.unk_id in ids and word not in unknown
        ]
        if not lost:
            return found
        begun = {each.token for each in room for word in lost if word.startswith(each.token)}
        if not begun:
            raise DataError(f"'{lost[0]}' would become [UNK], whatever is added: no BERT WordPiece")
        harmful |= begun


def _characters(
    unknown: Iterable[str], counts: Mapping[str, int], tokenizer: Tokenizer, min_count: int
) -> list[Addition]:
    """Entries of one character that words need and the vocabulary lacks, by falling count."""
    missing: Counter[str] = Counter()
    for word in unknown:
        for index, character in enumerate(word):
            entry = MARK + character if index else character
            if entry not in tokenizer.vocab:
                missing[entry] += counts[word]
    often = [(entry, count) for entry, count in missing.items() if count >= min_count]
    often.sort(key=lambda item: (-item[1], item[0]))
    return [Addition(entry, (), count) for entry, count in often]
