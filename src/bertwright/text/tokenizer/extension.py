"""New entries for a vocabulary: the words of another domain that take it most tokens.

A word that occurs n times and is k tokens costs n (k - 1) tokens more than it would as one
entry; the words that cost most are added, ties by spelling, as exBERT (Tai et al. 2020) and AVocaDo
(Hong et al. 2021) add words of a domain by what they save. Old entries keep their ids, so a trained
model keeps what it knows.

Only whole words are added, as BERT's rules split them. Longest match first then tokenizes longer
words that begin with one of them otherwise, too; an entry through which a word would become [UNK]
is left out. Characters that the vocabulary lacks come first, bare and as "##x", as without them a
word is [UNK].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bertwright.config.corpus import CorpusConfig
from bertwright.errors import DataError
from bertwright.text.corpus.read import split_document
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.tokenizer.word_counts import count_block
from bertwright.text.tokenizer.wordpiece import MARK

HELD_OUT_EVERY = 20
"""One document in so many is held out to measure on."""

_MOST_HELD_OUT = 4_000_000  # characters
_MOST_CHARACTERS = 4  # at most one in so many entries is a character


@dataclass(frozen=True)
class Addition:
    """A new entry."""

    token: str
    replaces: tuple[int, ...]
    """Ids of the tokens it replaces; none: a character that was not in the vocabulary."""
    count: int
    """How often it occurs."""

    @property
    def gain(self) -> int:
        """Tokens it saves in the corpus."""
        return self.count * max(0, len(self.replaces) - 1)


@dataclass(frozen=True)
class Length:
    """How long a text is in tokens."""

    sentences: int
    words: int
    tokens: int
    """Without [CLS] and [SEP]."""
    unknown: int
    """[UNK] among them."""
    tokens_per_word: float
    tokens_per_sentence: float
    characters_per_token: float


class HeldOut:
    """Documents on their way to be counted, every twentieth kept back."""

    def __init__(self) -> None:
        self.documents: list[str] = []
        self.first: list[str] = []
        """The first documents, to measure on where there are too few to hold one out."""
        self._size = 0
        self._seen = 0

    def pass_on(self, blocks: Iterable[list[str]]) -> Iterator[list[str]]:
        """The blocks without what is held out; the first nineteen never are."""
        for block in blocks:
            kept = []
            for document in block:
                self._seen += 1
                if self._seen < HELD_OUT_EVERY:
                    self.first.append(document)
                if self._seen % HELD_OUT_EVERY or self._size >= _MOST_HELD_OUT:
                    kept.append(document)
                else:
                    self.documents.append(document)
                    self._size += len(document)
            yield kept


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


def measure(
    documents: Sequence[str], tokenizer: Tokenizer, reading: CorpusConfig | None = None
) -> Length:
    """How long documents are under a vocabulary, split as `data build` does.

    Raises:
        DataError: they have no words.
    """
    reading = reading or CorpusConfig()
    sentences = [text for document in documents for text in split_document(document, reading)]
    ids, lengths = tokenizer.encode_sentence_ids(sentences)
    words = count_block(list(documents), tokenizer.rules).words
    tokens = int(lengths.sum())
    if not words or not tokens:
        raise DataError("the held-out documents have no words to measure on")
    return Length(
        sentences=len(sentences),
        words=words,
        tokens=tokens,
        unknown=int((ids == tokenizer.unk_id).sum()),
        tokens_per_word=round(tokens / words, 4),
        tokens_per_sentence=round(tokens / len(sentences), 3),
        characters_per_token=round(sum(map(len, sentences)) / tokens, 4),
    )


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
