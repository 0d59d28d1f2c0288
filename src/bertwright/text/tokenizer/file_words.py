"""Read text in the words of a file of word vectors or of an n-gram model.

Such a file has a row for each word, but no rule that says how its author split text into words, so
the words of the file decide. A text is split at blanks. For a `vectors` file, each part is then
looked up in this order:

1. as it is (`U.S.`, `n't`, `well-known`), or in Unicode's composed form (NFC);
2. with other capitalization: in lower case, capitalized, in capitals;
3. without the punctuation around it, removing as little as possible (`"U.S.,` becomes `U.S.`);
4. as several words of the file: the longest match from left to right, over whole runs of letters
   and digits, or over single characters in scripts without blanks between words (Chinese, Japanese,
   Thai, Lao, Khmer, Burmese). Punctuation between these words is left out.

If none is found, it is the unknown word. A `language-model` file has probabilities of exact words,
so only the exact form is looked up, as KenLM does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Literal, NamedTuple, get_args

from bertwright.text.tokenizer.normalize import is_punctuation

FileKind = Literal["vectors", "language-model"]
FILE_KINDS = get_args(FileKind)
FILE_WORDS = "file_words"
"""The key of `tokenizer_config.json` that names the kind of file."""
UNKNOWN_ROW = "unknown_row"
"""The key that is `"mean"` if the file has no row for unknown words, so that the mean of all rows
was added.
"""

UNKNOWN_NAMES = (
    *("<unk>", "<UNK>", "[UNK]", "UNK", "<unknown>", "<UNKNOWN>", "*UNKNOWN*", "__UNK__", "_UNK_"),
    *("UUUNKKK", "$UNK$", "@@UNKNOWN@@"),
)
"""The names that files of word vectors give to the row of unknown words; the first that exists is
used.
"""

_BETWEEN_BLANKS = re.compile(r"[^ \t\n\r\v\f\0]+")
_NO_BLANKS = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai and Lao, Burmese, Khmer, kana and Chinese characters."""
_RUNS = re.compile(f"[{_NO_BLANKS}]|[^{_NO_BLANKS}]+")
_IS_NO_BLANKS = re.compile(f"[{_NO_BLANKS}]")
_MOST_AROUND = 8
"""The most punctuation marks on each side of a word for which every partial removal is tried."""
_MOST_JOINED = 16
"""The most pieces (runs of letters and digits, and single marks) that a word of a file may consist
of.
"""
_LONGEST_PART = 1000
"""The most characters of a part in which several pieces are looked up as one word."""
_LONGEST_WORD = 64
"""The most characters of a word that is looked up in a script without blanks."""


def coverage(words: int, unknown: int) -> str:
    """Return a sentence that says how many words of a text a model has a vector for."""
    known = words - unknown
    fraction = known / max(1, words)
    return f"{known:,} of {words:,} words have a vector in the model ({fraction:.1%})"


class FoundWord(NamedTuple):
    """A word of the file, and its place in a text."""

    id: int
    start: int
    stop: int


def between_blanks(text: str) -> Iterator[re.Match[str]]:
    """Yield the parts of a text between ASCII blanks, as programs written in C split it."""
    return _BETWEEN_BLANKS.finditer(text)


def spellings(word: str) -> Iterator[str]:
    """Yield the spellings under which a word is looked up: as it is, composed, with other
    capitalization.
    """
    yield word
    composed = word if word.isascii() else unicodedata.normalize("NFC", word)
    if composed != word:
        yield composed
    lower = composed.lower()
    if lower != composed.upper():
        yield lower
        yield composed.capitalize()
        yield composed.upper()


class FileWords:
    """Splits texts into the words of a file."""

    def __init__(self, vocab: Mapping[str, int], unknown: int, kind: FileKind) -> None:
        self.vocab, self.unknown, self.kind = vocab, unknown, kind

    def read(self, text: str) -> list[FoundWord]:
        """Return the words of a text, in order."""
        return [
            FoundWord(word.id, part.start() + word.start, part.start() + word.stop)
            for part in between_blanks(text)
            for word in self.of_part(part[0])
        ]

    def of_part(self, part: str) -> list[FoundWord]:
        """Return the words of a part between two blanks; there is at least one."""
        exact = self.vocab.get(part)
        if exact is not None or self.kind == "language-model":
            return [FoundWord(self.unknown if exact is None else exact, 0, len(part))]
        id_ = self._known(part)
        if id_ is not None:
            return [FoundWord(id_, 0, len(part))]
        return self._without_punctuation(part) or self._several(part)

    def _known(self, word: str) -> int | None:
        """Return the id of a word in one of its spellings, or None."""
        return next((self.vocab[each] for each in spellings(word) if each in self.vocab), None)

    def _without_punctuation(self, part: str) -> list[FoundWord]:
        """Return the word that is left when as few marks as possible are removed from its ends."""
        left, right = 0, 0
        while left < len(part) and is_punctuation(part[left]):
            left += 1
        while right < len(part) - left and is_punctuation(part[-1 - right]):
            right += 1
        if left + right >= len(part):
            return []
        most_left, most_right = min(left, _MOST_AROUND), min(right, _MOST_AROUND)
        tried = [
            (first, total - first)
            for total in range(1, most_left + most_right + 1)
            for first in range(max(0, total - most_right), min(total, most_left) + 1)
        ]
        for first, last in [*tried, (left, right)]:
            id_ = self._known(part[first : len(part) - last])
            if id_ is not None:
                return [FoundWord(id_, first, len(part) - last)]
        return []

    def _several(self, part: str) -> list[FoundWord]:
        """Return the longest words from left to right, with the unknown word where there is
        none.
        """
        pieces = list(_pieces(part))
        words: list[FoundWord] = []
        number = 0
        while number < len(pieces):
            start, stop = pieces[number]
            after, id_ = self._longest(part, pieces, number)
            if id_ is not None:
                words.append(FoundWord(id_, start, pieces[after - 1][1]))
            elif not _is_mark(part[start:stop]):
                self._add_unknown(words, start, stop)
            number = after
        if all(self._is_lone_mark(part, word) for word in words):
            # the part is only punctuation: return the marks that the file has
            return words or [FoundWord(self.unknown, 0, len(part))]
        return [word for word in words if not self._is_lone_mark(part, word)]

    def _longest(
        self, part: str, pieces: list[tuple[int, int]], number: int
    ) -> tuple[int, int | None]:
        """Return the index of the piece after the longest word that begins at a piece, and the
        word's id.
        """
        start = pieces[number][0]
        look_up: Callable[[str], int | None]
        if _IS_NO_BLANKS.match(part[start]):
            most, look_up = self._longest_without_blanks.get(part[start], 1), self.vocab.get
        else:
            most, look_up = _MOST_JOINED if len(part) <= _LONGEST_PART else 1, self._known
        for after in range(min(len(pieces), number + most), number, -1):
            id_ = look_up(part[start : pieces[after - 1][1]])
            if id_ is not None:
                return after, id_
        return number + 1, None

    @cached_property
    def _longest_without_blanks(self) -> dict[str, int]:
        """For scripts without blanks: first character -> number of characters of the longest
        word.
        """
        longest: dict[str, int] = {}
        for word in self.vocab:
            first = word[:1]
            if not first.isascii() and _IS_NO_BLANKS.match(first):
                longest[first] = min(_LONGEST_WORD, max(longest.get(first, 1), len(word)))
        return longest

    def _add_unknown(self, words: list[FoundWord], start: int, stop: int) -> None:
        """Add the unknown word; adjacent unknown characters are joined to one."""
        if words and words[-1].id == self.unknown and words[-1].stop == start:
            words[-1] = FoundWord(self.unknown, words[-1].start, stop)
        else:
            words.append(FoundWord(self.unknown, start, stop))

    def _is_lone_mark(self, part: str, word: FoundWord) -> bool:
        return word.stop - word.start == 1 and _is_mark(part[word.start])


def _pieces(part: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each piece of a part: each character of a script without blanks,
    each mark or space, and each run of other characters.
    """
    for run in _RUNS.finditer(part):
        begin = run.start()
        for at in range(run.start(), run.end()):
            if _is_mark(part[at]):
                if at > begin:
                    yield begin, at
                yield at, at + 1
                begin = at + 1
        if begin < run.end():
            yield begin, run.end()


def _is_mark(piece: str) -> bool:
    """Return whether a piece is a single punctuation mark or space."""
    return len(piece) == 1 and (piece.isspace() or is_punctuation(piece))
