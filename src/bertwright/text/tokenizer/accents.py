"""Decide whether a vocabulary strips accents, by what stripping does to the words of a corpus.

The published uncased vocabularies decompose each character (NFD) and drop its combining marks
(google-research/bert, `tokenization.py`): English "naïve" becomes "naive". In other scripts these
marks are vowels and consonants: मैं becomes म, で becomes て, й becomes и, and ma, má and mả become
the same word. Nothing composes the characters again, so a Korean syllable becomes the two or three
letters that it consists of.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

MOST = 0.01
"""The fraction of running words up to which stripping is harmless."""
_LETTERS = (
    ("Devanagari or another script of India", 0x0900, 0x0DFF),
    ("Thai or a related script", 0x0E00, 0x109F),
    ("Thai or a related script", 0x1780, 0x17FF),
    ("kana", 0x3040, 0x30FF),
    ("Cyrillic", 0x0400, 0x052F),
)
"""Scripts in which a mark makes another letter, and their ranges of base characters."""
_VIETNAMESE = {0x031B, 0x0309, 0x0323}
"""Horn, hook above and dot below: the marks of Vietnamese that other Latin alphabets lack."""
DECOMPOSED = "Korean or another script of composed characters"
EXAMPLES = 3


@lru_cache(maxsize=1 << 16)
def loses_marks(word: str) -> bool:
    """Return whether stripping accents removes a mark from the word."""
    if word.isascii():
        return False
    return any(unicodedata.category(c) == "Mn" for c in unicodedata.normalize("NFD", word))


@lru_cache(maxsize=1 << 16)
def stays_decomposed(word: str) -> bool:
    """Return whether stripping accents leaves a character in several parts, as it does with Korean
    syllables and with some vowel signs of India.
    """
    if word.isascii():
        return False
    letters = unicodedata.normalize("NFD", word)
    stripped = "".join(c for c in letters if unicodedata.category(c) != "Mn")
    return unicodedata.normalize("NFC", stripped) != stripped


def script_of_marks(word: str) -> str | None:
    """Return the script of a word in which stripping changes letters rather than accents, or
    None.
    """
    base, marks = 0, 0
    for character in unicodedata.normalize("NFD", word):
        if unicodedata.category(character) != "Mn":
            base, marks = ord(character), 0
            continue
        marks += 1
        if base < 0x250 and (ord(character) in _VIETNAMESE or marks > 1):
            return "Vietnamese"
        for name, first, last in _LETTERS:
            if first <= base <= last:
                return name
    return None


@dataclass(frozen=True)
class Accents:
    """The effect of stripping accents on the words of a corpus."""

    words: int
    """The number of running words, without punctuation."""
    changed: int
    """The number of those that lose marks or stay decomposed."""
    merged: tuple[tuple[str, ...], ...]
    """Examples of different words that become the same, the most frequent first."""
    scripts: tuple[str, ...]
    """The scripts of changed words in which a mark makes another letter, or whose characters stay
    decomposed.
    """
    examples: tuple[tuple[str, str], ...]
    """Words and what they become, the most frequent first."""

    @property
    def fraction(self) -> float:
        """The fraction of running words that lose marks or stay decomposed."""
        return self.changed / max(1, self.words)

    @property
    def harmful(self) -> bool:
        """Whether `--strip-accents auto` keeps the marks."""
        return self.fraction > MOST and bool(self.merged or self.scripts)

    def as_dict(self) -> dict[str, object]:
        """Return the counts as a mapping, for `training.json`."""
        return {
            "accented_words_share": round(self.fraction, 6),
            "accented_words": [f"{word} -> {becomes}" for word, becomes in self.examples],
            "merged_words": [" ".join(group) for group in self.merged],
        }


def find_accents(counts: dict[str, int], accented: Iterable[tuple[str, str, int]]) -> Accents:
    """Return the effect of stripping accents on a corpus.

    Args:
        counts: the words of the corpus after stripping, and how often each occurs.
        accented: the words that change, what each becomes, and how often it occurs.
    """
    changed: Counter[str] = Counter()
    becomes: dict[str, str] = {}
    forms: dict[str, Counter[str]] = {}
    scripts: set[str] = set()
    for word, stripped, count in accented:
        decomposed = stays_decomposed(word)
        if not decomposed and not loses_marks(word):  # the same characters, written otherwise
            continue
        changed[word] += count
        becomes[word] = stripped
        forms.setdefault(stripped, Counter())[unicodedata.normalize("NFC", word)] += count
        if script := script_of_marks(word):
            scripts.add(script)
        if decomposed:
            scripts.add(DECOMPOSED)
    merged: list[tuple[int, tuple[str, ...]]] = []
    for stripped, originals in forms.items():
        unaccented = counts.get(stripped, 0) - originals.total()
        group = [*([stripped] if unaccented > 0 else []), *sorted(originals)]
        if len(group) > 1 and stripped:
            merged.append((originals.total(), tuple(group[:4])))
    merged.sort(key=lambda item: (-item[0], item[1]))
    words = sum(count for word, count in counts.items() if any(map(str.isalnum, word)))
    words += sum(count for word, count in changed.items() if not becomes[word])
    often = sorted(changed.items(), key=lambda item: (-item[1], item[0]))[:EXAMPLES]
    return Accents(
        words=words,
        changed=changed.total(),
        merged=tuple(group for _, group in merged[:EXAMPLES]),
        scripts=tuple(sorted(scripts)),
        # with blanks, because decomposed characters are displayed as the composed one
        examples=tuple(
            (word, " ".join(becomes[word]) if stays_decomposed(word) else becomes[word])
            for word, _ in often
        ),
    )
