"""Entities marked in a text by characters, as annotation tools write them, become tags of words.

| tool | beside `text` |
|---|---|
| doccano | `"label": [[0, 5, "PER"]]` |
| doccano, with relations | `"entities": [{"start_offset": 0, "end_offset": 5, "label": "PER"}]` |
| Prodigy | `"spans": [{"start": 0, "end": 5, "label": "PER"}]`, `"answer": "accept"` |
| spaCy | `"entities": [[0, 5, "PER"]]` |

Words are those that `predict` cuts a text into, and are cut once more where an entity begins or
ends within one. Tags are IOB2. A word has one tag: of entities that overlap the longest counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from bertwright.labelled.bad_rows import BadRowLog, shorten
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.sources import without_surrogates
from bertwright.labelled.text_rows import BadValue
from bertwright.labelled.word_splitter import split_words

_STARTS, _ENDS = ("start", "start_offset"), ("end", "end_offset")
_LABELS = ("label", "type", "tag", "entity")
_COUNTED = "an emoji, which counts as one character; tools in JavaScript count two"


class Entity(NamedTuple):
    """Characters `start` to `end` (one after the last) of a text."""

    start: int
    end: int
    label: str


class EntityReader:
    """Reads the rows of one file, and tells at the end what it changed."""

    def __init__(self, column: str, log: BadRowLog) -> None:
        self.column, self.log = column, log
        self.entities = self.within = self.overlapping = self.shifted = 0
        self.first_within = self.first_overlap = ""

    def example(self, text: str, value: Any, document: int, line: int) -> TaggingExample:
        """The example of a text and what its row says of entities.

        Raises:
            BadValue: that is no list of entities, or one that is not in the text.
        """
        if not isinstance(value, list):
            raise BadValue(
                "no list of entities",
                f"the column {shorten(self.column)} holds {shorten(value)}; expected a list of "
                '[start, end, "label"]',
            )
        found = [_entity(each, text) for each in value]
        named = [e._replace(label=without_surrogates(e.label, self.log)) for e in found]
        entities = self._apart(named, line)
        bounds = sorted({place for each in entities for place in each[:2]})
        words = split_words(text)
        cut = _cut(words, bounds)
        self.entities += len(entities)
        inside = {place for start, end in words for place in bounds if start < place < end}
        broken = [each for each in entities if inside & {each.start, each.end}]
        if broken and not self.within:
            self.first_within = (
                f"{self.log.unit} {line:,}, {shorten(text[broken[0].start : broken[0].end])}"
            )
        self.within += len(broken)
        self.shifted += any(max(text[: each.end]) > "\uffff" for each in broken)
        return TaggingExample(
            words=tuple(text[start:end] for start, end in cut),
            tags=tuple(_tags(cut, entities)),
            document=document,
            text=text,
            offsets=tuple(cut),
            line=line,
        )

    def tell(self) -> None:
        """Add warnings to the log, when all rows are read."""
        if self.within:
            self.log.warnings.append(
                f"{self.log.name}: {self.within:,} of {self.entities:,} entities begin or end "
                f"within a word (first in {self.first_within}); their words are cut there, as the "
                "words of a text to predict are not"
                + (f"; in {self.shifted:,} texts behind {_COUNTED}" if self.shifted else "")
            )
        if self.overlapping:
            self.log.warnings.append(
                f"{self.log.name}: {self.overlapping:,} entities overlap a longer one and are left "
                f"out, as a word has one tag (first in {self.first_overlap})"
            )

    def _apart(self, entities: Sequence[Entity], line: int) -> list[Entity]:
        """Entities that do not overlap, by place; of those that do the longest, then the first."""
        kept: list[Entity] = []
        for each in sorted({*entities}, key=lambda e: (e.start - e.end, e)):
            if all(each.end <= other.start or other.end <= each.start for other in kept):
                kept.append(each)
            else:
                if not self.overlapping:
                    self.first_overlap = f"{self.log.unit} {line:,}, {shorten(each.label)}"
                self.overlapping += 1
        return sorted(kept)


def _entity(value: Any, text: str) -> Entity:
    """One entity, without white space at its ends.

    Raises:
        BadValue: it has another form, or characters the text has not.
    """
    if isinstance(value, dict):
        given = [
            next((value[name] for name in names if value.get(name) is not None), None)
            for names in (_STARTS, _ENDS, _LABELS)
        ]
    else:
        given = value if isinstance(value, list) else []
    match given:
        case [int(start), int(end), str(label)] if label.strip():
            pass
        case _:
            raise BadValue(
                "entity of a wrong form",
                f'the entity {shorten(value)}; expected [start, end, "label"], or an object with '
                "start, end and label",
            )
    slice_ = text[start:end] if 0 <= start < end <= len(text) else ""
    if not slice_.strip():
        emoji = f". There is {_COUNTED}" if max(text) > "\uffff" else ""
        raise BadValue(
            "entity that is not in the text",
            f"the entity {shorten(value)} has no characters of the text, which has {len(text):,}; "
            f"start counts from 0, end is one after the last{emoji}",
        )
    start += len(slice_) - len(slice_.lstrip())
    return Entity(start, start + len(slice_.strip()), label.strip())


def _cut(words: Sequence[tuple[int, int]], bounds: Sequence[int]) -> list[tuple[int, int]]:
    """Words cut at the bounds within them."""
    cut: list[tuple[int, int]] = []
    for start, end in words:
        places = [start, *(place for place in bounds if start < place < end), end]
        cut += pairwise(places)
    return cut


def _tags(words: Sequence[tuple[int, int]], entities: Sequence[Entity]) -> list[str]:
    """IOB2 of words none of which is partly in an entity."""
    tags = ["O"] * len(words)
    for entity in entities:
        letter = "B"
        for place, (start, end) in enumerate(words):
            if entity.start <= start and end <= entity.end:
                tags[place] = f"{letter}-{entity.label}"
                letter = "I"
    return tags
