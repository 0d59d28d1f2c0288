"""Choose new entries for a vocabulary: the words of a domain that would save the most tokens.

A word that occurs n times and is split into k tokens costs n (k - 1) tokens more than as a single
entry. The words with the highest cost are added, ties by spelling, as exBERT (Tai et al. 2020) and
AVocaDo (Hong et al. 2021) also add words of a domain by what they save. See
docs/howto/tokenizer.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bertwright.errors import DataError
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.tokenizer.wordpiece import MARK

_MOST_CHARACTERS = 4  # at most one in this many entries is a single character


@dataclass(frozen=True)
class Addition:
    """A word or character to be added to the vocabulary."""

    token: str
    replaces: tuple[int, ...]
    """The ids of the tokens that it replaces; empty for a character that was not in the
    vocabulary.
    """
    count: int
    """The number of times it occurs."""

    @property
    def gain(self) -> int:
        """The number of tokens that it saves in the corpus."""
        return self.count * max(0, len(self.replaces) - 1)


def choose_additions(
    counts: Mapping[str, int], tokenizer: Tokenizer, add: int, min_count: int = 5
) -> list[Addition]:
    """Return at most `add` entries that save the most: characters, then words, each by descending
    gain.

    `counts` has words as BERT's rules split them; words with a count below `min_count` are not
    added.

    Raises:
        DataError: the tokenizer is not BERT's.
    """
    longest = tokenizer.rules.max_word_characters  # raises DataError if it is not BERT's
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
        entries = [*additions, *room]
        larger = tokenizer.extended([each.token for each in entries])
        lost = [
            word
            for word, ids in zip(often, larger.encode_bare_ids(often), strict=True)
            if larger.unk_id in ids and word not in unknown
        ]
        if not lost:
            return entries
        begun = {each.token for each in room for word in lost if word.startswith(each.token)}
        if not begun:
            raise DataError(
                f"'{lost[0]}' would become [UNK], whatever is added: this is no BERT WordPiece"
            )
        harmful |= begun


def _characters(
    unknown: Iterable[str], counts: Mapping[str, int], tokenizer: Tokenizer, min_count: int
) -> list[Addition]:
    """Return entries of one character that words need and the vocabulary lacks, by descending
    count.
    """
    missing: Counter[str] = Counter()
    for word in unknown:
        for index, character in enumerate(word):
            entry = MARK + character if index else character
            if entry not in tokenizer.vocab:
                missing[entry] += counts[word]
    often = [(entry, count) for entry, count in missing.items() if count >= min_count]
    often.sort(key=lambda item: (-item[1], item[0]))
    return [Addition(entry, (), count) for entry, count in often]
