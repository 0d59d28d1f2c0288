"""Show how a text is tokenized, word by word, and why, for `bertwright tokenizer inspect`."""

from __future__ import annotations

from dataclasses import dataclass

from bertwright.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class Word:
    """One word of a text and its tokens."""

    text: str
    """The word as it is in the text."""
    normalized: str
    pieces: list[str]
    ids: list[int]
    offsets: list[tuple[int, int]]
    """The start and end of each token in the text, in characters."""
    why: str
    """Why the word is `[UNK]`, or that the text spells a special token here; otherwise empty."""


@dataclass(frozen=True)
class TextInspection:
    """A text, its normalized form, its words, and its ids without [CLS] and [SEP]."""

    text: str
    normalized: str
    words: list[Word]
    ids: list[int]


def inspect_text(tokenizer: Tokenizer, text: str) -> TextInspection:
    """Tokenize `text` as a model would read it, without [CLS] and [SEP].

    Raises:
        DataError: the tokenizer is not a BERT WordPiece.
    """
    longest = tokenizer.rules.max_word_characters
    encoding = tokenizer.encode(text)
    groups: list[list[int]] = []
    last: int | None = None
    for index, word_id in enumerate(encoding.word_ids):
        start, stop = encoding.offsets[index]
        if word_id is not None and word_id == last:
            groups[-1].append(index)
        elif word_id is not None or stop > start:  # a special token in the text has no word
            groups.append([index])
        last = word_id
    words = []
    for group in groups:
        pieces = [encoding.tokens[index] for index in group]
        ids = [encoding.ids[index] for index in group]
        offsets = [encoding.offsets[index] for index in group]
        source = text[offsets[0][0] : offsets[-1][1]]
        special = pieces[0] == source and ids[0] in tokenizer.special_ids
        normalized = source if special else tokenizer.normalized(source)
        why = "special token" if special else ""
        if not special and ids[0] == tokenizer.unk_id:
            why = why_unknown(normalized, tokenizer.vocab, longest)
        words.append(Word(source, normalized, pieces, ids, offsets, why))
    whole = [index for word in words for index in word.ids]
    return TextInspection(text, tokenizer.normalized(text), words, whole)


def why_unknown(word: str, vocab: dict[str, int], longest: int) -> str:
    """Return the reason why a normalized word is `[UNK]`."""
    if len(word) > longest:
        return f"{len(word)} characters; a word has at most {longest}"
    entries = [word[:1], *("##" + character for character in word[1:])]
    if missing := sorted({entry for entry in entries if entry not in vocab}):
        named = ", ".join(f"{entry} (U+{ord(entry[-1]):04X})" for entry in missing)
        return f"not in the alphabet: {named}"
    return "no entries spell it when the longest match is taken first"
