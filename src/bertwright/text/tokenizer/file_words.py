"""How a text is read in the words of a file: word vectors, or an n-gram model.

Such a file has a row for each word and no rule that says how its author split text into words. So
the words of the file decide. A text is split at blanks, and then, for a `vectors` file, a part
between two blanks is looked up in this order:

1. as it is (`U.S.`, `n't`, `well-known`), or in Unicode's composed form (NFC);
2. by case: in lower case, capitalized, in capitals;
3. without punctuation around it, as little of it as possible (`"U.S.,` is `U.S.`);
4. as several words of the file: the longest match from left to right, over whole runs of letters
   and digits, and over single characters in scripts that write no blanks between words (Chinese,
   Japanese, Thai, Lao, Khmer, Burmese). Punctuation between these words is left out.

What is not found is the unknown word. A `language-model` file has probabilities of exact words, so
that only the first look-up without NFC is made, as KenLM does.
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
"""The key of `tokenizer_config.json` that says of which kind of file the words are."""
UNKNOWN_ROW = "unknown_row"
"""The key that is `"mean"` where the file has no row for unknown words: ours is the mean of all."""

UNKNOWN_NAMES = (
    *("<unk>", "<UNK>", "[UNK]", "UNK", "<unknown>", "<UNKNOWN>", "*UNKNOWN*", "__UNK__", "_UNK_"),
    *("UUUNKKK", "$UNK$", "@@UNKNOWN@@"),
)
"""Names that files of word vectors give to the row of unknown words; the first that is there."""

_BETWEEN_BLANKS = re.compile(r"[^ \t\n\r\v\f\0]+")
_NO_BLANKS = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai and Lao, Burmese, Khmer, kana, Chinese characters."""
_RUNS = re.compile(f"[{_NO_BLANKS}]|[^{_NO_BLANKS}]+")
_IS_NO_BLANKS = re.compile(f"[{_NO_BLANKS}]")
_MOST_AROUND = 8
"""Punctuation marks on either side of a word of which any number may be left out."""
_MOST_JOINED = 16
"""Runs of letters, digits and single marks that one word of a file may be made of."""
_LONGEST_PART = 1000
"""Characters of a part up to which several of these are looked up as one word."""
_LONGEST_WORD = 64
"""Characters of the longest word that is looked for in a script without blanks."""


def coverage(words: int, unknown: int) -> str:
    """How many words of a text a model of words has: said by every verb that reads one."""
    known = words - unknown
    share = known / max(1, words)
    return f"{known:,} of {words:,} words are in the vocabulary of the model ({share:.1%})"


class FoundWord(NamedTuple):
    """A word of the file, and where it stands in a text."""

    id: int
    start: int
    stop: int


def between_blanks(text: str) -> Iterator[re.Match[str]]:
    """The parts of a text between blanks of ASCII, as programs in C split it."""
    return _BETWEEN_BLANKS.finditer(text)


def spellings(word: str) -> Iterator[str]:
    """The spellings under which a word is looked up: as it is, composed, then by case."""
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
    """Reads texts in the words of a file."""

    def __init__(self, vocab: Mapping[str, int], unknown: int, kind: FileKind) -> None:
        self.vocab, self.unknown, self.kind = vocab, unknown, kind

    def read(self, text: str) -> list[FoundWord]:
        """The words of a text, in order."""
        return [
            FoundWord(word.id, part.start() + word.start, part.start() + word.stop)
            for part in between_blanks(text)
            for word in self.of_part(part[0])
        ]

    def of_part(self, part: str) -> list[FoundWord]:
        """The words of what stands between two blanks, at least one."""
        exact = self.vocab.get(part)
        if exact is not None or self.kind == "language-model":
            return [FoundWord(self.unknown if exact is None else exact, 0, len(part))]
        found = self._known(part)
        if found is not None:
            return [FoundWord(found, 0, len(part))]
        return self._without_punctuation(part) or self._several(part)

    def _known(self, word: str) -> int | None:
        """The id of a word in one of its spellings."""
        return next((self.vocab[each] for each in spellings(word) if each in self.vocab), None)

    def _without_punctuation(self, part: str) -> list[FoundWord]:
        """The word that is left when as few marks as possible are taken from its ends."""
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
            found = self._known(part[first : len(part) - last])
            if found is not None:
                return [FoundWord(found, first, len(part) - last)]
        return []

    def _several(self, part: str) -> list[FoundWord]:
        """The longest words from left to right, the unknown word where there is none."""
        pieces = list(_pieces(part))
        words: list[FoundWord] = []
        number = 0
        while number < len(pieces):
            start, stop = pieces[number]
            after, found = self._longest(part, pieces, number)
            if found is not None:
                words.append(FoundWord(found, start, pieces[after - 1][1]))
            elif not _is_mark(part[start:stop]):
                self._add_unknown(words, start, stop)
            number = after
        if all(self._is_lone_mark(part, word) for word in words):
            # a part of nothing but punctuation: the marks that the file has
            return words or [FoundWord(self.unknown, 0, len(part))]
        return [word for word in words if not self._is_lone_mark(part, word)]

    def _longest(
        self, part: str, pieces: list[tuple[int, int]], number: int
    ) -> tuple[int, int | None]:
        """The piece after the longest word that begins with a piece, and the id of the word."""
        start = pieces[number][0]
        look_up: Callable[[str], int | None]
        if _IS_NO_BLANKS.match(part[start]):
            most, look_up = self._longest_without_blanks.get(part[start], 1), self.vocab.get
        else:
            most, look_up = _MOST_JOINED if len(part) <= _LONGEST_PART else 1, self._known
        for after in range(min(len(pieces), number + most), number, -1):
            found = look_up(part[start : pieces[after - 1][1]])
            if found is not None:
                return after, found
        return number + 1, None

    @cached_property
    def _longest_without_blanks(self) -> dict[str, int]:
        """First character -> characters of the longest word, in scripts without blanks."""
        longest: dict[str, int] = {}
        for word in self.vocab:
            first = word[:1]
            if not first.isascii() and _IS_NO_BLANKS.match(first):
                longest[first] = min(_LONGEST_WORD, max(longest.get(first, 1), len(word)))
        return longest

    def _add_unknown(self, words: list[FoundWord], start: int, stop: int) -> None:
        """Add the unknown word; neighbouring characters that are unknown are one."""
        if words and words[-1].id == self.unknown and words[-1].stop == start:
            words[-1] = FoundWord(self.unknown, words[-1].start, stop)
        else:
            words.append(FoundWord(self.unknown, start, stop))

    def _is_lone_mark(self, part: str, word: FoundWord) -> bool:
        return word.stop - word.start == 1 and _is_mark(part[word.start])


def _pieces(part: str) -> Iterator[tuple[int, int]]:
    """Where the pieces of a part begin and end: each character of a script without blanks, each
    mark or space, and each run of other characters."""
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
    """Whether a piece is one mark of punctuation or one space."""
    return len(piece) == 1 and (piece.isspace() or is_punctuation(piece))
