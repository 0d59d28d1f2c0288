"""Ids for words outside of a vocabulary, for encoders that compute a vector from the spelling.

The ids of a vocabulary are 0 to V - 1. An encoder that spells (ELMo, fastText) needs the word
itself where the vocabulary has only [UNK], so each such word is given an id from V on when it is
first read. These ids are those of one process: no file holds them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_IDS = 1 << 31
"""Ids are stored as 32-bit integers, so they begin again at V before this number."""


class FurtherWords:
    """The words outside of a vocabulary that were read so far, and their ids."""

    def __init__(self, first: int, can_spell: Callable[[str], bool]) -> None:
        """Begin without words.

        Args:
            first: V, the first id.
            can_spell: returns whether the encoder computes a vector for a word.
        """
        self.first = first
        self.most: int | None = None
        """The maximum number of words that are kept, for processes that run for long: the words
        that were read least recently are forgotten. None: all are kept. At least half as many other
        words are read before a word is forgotten.
        """
        self._can_spell = can_spell
        self._ids: dict[str, int] = {}
        self._words: dict[int, str] = {}
        self._older: dict[int, str] = {}
        self._given = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of words that are kept."""
        return len(self._words) + len(self._older)

    def __deepcopy__(self, memo: dict[int, Any]) -> FurtherWords:
        """Return the same words: a copy of an encoder reads the ids of the same tokenizer."""
        return self

    def id_of(self, word: str) -> int | None:
        """Return the id of a word, a new one if need be; None if the encoder cannot spell it."""
        id_ = self._ids.get(word)
        if id_ is not None or not self._can_spell(word):
            return id_
        with self._lock:
            if word not in self._ids:
                if self.most is not None and len(self._ids) >= max(1, self.most // 2):
                    # in this order, so that another thread finds a word in one of the two
                    self._older = self._words
                    self._words, self._ids = {}, {}
                id_ = self.first + self._given % (_IDS - self.first)
                self._given += 1
                self._words[id_] = word
                self._ids[word] = id_
            return self._ids[word]

    def word_of(self, id: int) -> str:
        """Return the word of an id; raise KeyError if no word that is kept has it."""
        word = self._words.get(id)
        return self._older[id] if word is None else word
