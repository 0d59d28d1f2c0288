"""How a text is tokenized, word by word, and why: what `bertwright tokenizer inspect` shows."""

from __future__ import annotations

from dataclasses import dataclass

from bertwright.text.tokenizer.normalize import longest_match
from bertwright.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class Word:
    """One word of a text and its tokens."""

    text: str
    """As it stands in the text."""
    normalized: str
    start: int
    stop: int
    """Characters of the text, from and up to."""
    pieces: list[str]
    ids: list[int]
    offsets: list[tuple[int, int]]
    """Where each token begins and ends in the text, in characters."""
    unknown: str | None
    """Why the word is `[UNK]`; None where it is not."""
    special: bool
    """Whether the text spells a special token here."""


@dataclass(frozen=True)
class Inspection:
    """A text, what the rules made of it, and its words."""

    text: str
    normalized: str
    words: list[Word]

    @property
    def ids(self) -> list[int]:
        """The ids of all words, without [CLS] and [SEP]."""
        return [index for word in self.words for index in word.ids]


def inspect_text(tokenizer: Tokenizer, text: str) -> Inspection:
    """Tokenize `text` as a model would read it, [CLS] and [SEP] left out.

    Raises:
        DataError: the tokenizer is not a BERT WordPiece.
    """
    longest = tokenizer.rules.max_word_characters
    encoding = tokenizer.encode(text)
    groups: list[list[int]] = []
    last: int | None = None
    for index, word_id in enumerate(encoding.word_ids):
        start, stop = encoding.offsets[index]
        written = word_id is not None or stop > start  # a special token in the text has no word
        if written and (word_id is None or word_id != last or not groups):
            groups.append([index])
        elif written:
            groups[-1].append(index)
        last = word_id
    words = []
    for group in groups:
        pieces = [encoding.tokens[index] for index in group]
        offsets = [encoding.offsets[index] for index in group]
        start, stop = offsets[0][0], offsets[-1][1]
        source = text[start:stop]
        special = pieces[0] == source and encoding.ids[group[0]] in tokenizer.special_ids
        normalized = source if special else tokenizer.normalized(source)
        reason = None
        if not special and encoding.ids[group[0]] == tokenizer.unk_id:
            reason = why_unknown(normalized, tokenizer.vocab, longest)
        ids = [encoding.ids[index] for index in group]
        words.append(Word(source, normalized, start, stop, pieces, ids, offsets, reason, special))
    return Inspection(text, tokenizer.normalized(text), words)


def why_unknown(word: str, vocab: dict[str, int], longest: int) -> str:
    """The reason that a normalized word is `[UNK]`."""
    if len(word) > longest:
        return f"{len(word)} characters; a word has at most {longest}"
    entries = [word[:1], *("##" + character for character in word[1:])]
    missing = sorted({entry for entry in entries if entry not in vocab})
    if missing:
        named = ", ".join(f"{entry} (U+{ord(entry[-1]):04X})" for entry in missing)
        return f"not in the alphabet: {named}"
    for stop in range(len(word), 0, -1):
        if longest_match(word[:stop], vocab) is not None:
            return f"no entry fits after {word[:stop]!r}, at {word[stop:]!r}"
    return f"no entry fits at {word!r}"
