"""Tagging schemes: how tags mark entities, and how sequences of tags are read and converted.

| scheme | first word | further words | last word | only word |
|---|---|---|---|---|
| iob1 | I, or B right after an entity of the same type | I | I | I or B |
| iob2 | B | I | I | B |
| iobes | B | I | E | S |

IOBES has variants with other letters, which are preserved: BMES writes M for I; BILOU writes L for
E and U for S. A sequence that breaks its scheme is read as conlleval reads it (Tjong Kim Sang and
Buchholz 2000).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from bertwright.config.task import Scheme

_TAG = re.compile(r"([BIESMLU])(?:-(.+))?", re.DOTALL)  # a letter alone: the one type has no name
_SAME = {"M": "I", "L": "E", "U": "S"}


def split_tag(tag: str) -> tuple[str, str]:
    """Return the letter and type of a tag: `("B", "PER")` for `B-PER`, `("O", "")` outside
    entities. M, L and U become I, E and S.
    """
    match = _TAG.fullmatch(tag)
    return (_SAME.get(match[1], match[1]), match[2] or "") if match else ("O", "")


def detect_scheme(sentences: Iterable[Sequence[str]]) -> Scheme:
    """Return the scheme that the tags of all sentences follow.

    It is `none` if tags are neither O nor a letter with a type (parts of speech, for example), or
    if all are O. If at most one tag in ten does not fit the scheme, these tags are regarded as
    mistakes (`stray_tags`). Tags that are valid in both IOB1 and IOB2 are IOB2.
    """
    sentences = list(sentences)
    counts = Counter(tag for sentence in sentences for tag in sentence)
    strays = stray_tags(counts)
    letters = {tag[:1] for tag in counts.keys() - strays - {"O"}}
    needed = "BISU" if any(label for _, label in map(split_tag, counts)) else "B"
    most = counts.total() // 10  # mistakes allowed in a file of entity tags
    if not letters.intersection(needed) or sum(counts[tag] for tag in strays) > most:
        return "none"
    if letters & set("ESMLU"):
        return "iobes"
    begins = Counter(tags[start][0] for tags in sentences for start, _, _ in chunks(tags))
    # A file of IOB2 with some entities that wrongly begin with I has more that begin with B.
    return "iob1" if begins["I"] > begins["B"] else "iob2"


def stray_tags(tags: Iterable[str]) -> set[str]:
    """Return the tags that mark no entity, except O. If some tags have a type, those without are
    included.
    """
    others = set(tags) - {"O"}
    typed = {tag for tag in others if split_tag(tag)[1]}
    return others - typed if typed else {tag for tag in others if not _TAG.fullmatch(tag)}


def chunks(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return the entities as `(first word, one after the last, type)`, read as conlleval reads
    them.

    An entity begins at B, at S, after O, E or S, and where the type changes, whatever the scheme
    says. This one rule reads IOB1, IOB2 and IOBES, and gives every sequence a reading.
    """
    entities = []
    start, before = 0, ("O", "")
    for number, each in enumerate([*map(split_tag, tags), ("O", "")]):
        inside = before[0] != "O"
        begins = each[0] in "BS" or before[0] in "OES" or before[1] != each[1]
        if inside and (each[0] == "O" or begins):
            entities.append((start, number, before[1]))
        if each[0] != "O" and (begins or not inside):
            start = number
        before = each
    return entities


def mend(tags: Sequence[str], scheme: Scheme, letters: str = "IES") -> tuple[str, ...]:
    """Return tags for the same entities that follow the scheme; valid tags are returned unchanged.

    With the scheme `none` all tags are returned unchanged. `letters` are those that IOBES writes
    inside, at the end and for a single word: `IES`, `MES` or `ILU`.
    """
    if scheme == "none":
        return tuple(tags)
    inside, last, only = tuple(letters if scheme == "iobes" else "IIB")
    mended = ["O"] * len(tags)
    end, label_before = -1, ""
    for start, stop, label in chunks(tags):
        name = f"-{label}" if label else ""
        first = "B" if scheme != "iob1" or (start == end and label == label_before) else "I"
        mended[start:stop] = [inside + name] * (stop - start)
        mended[start] = first + name
        if scheme == "iobes":
            mended[stop - 1] = (only if stop - start == 1 else last) + name
        end, label_before = stop, label
    return tuple(mended)


def scheme_title(scheme: Scheme, tags: Iterable[str]) -> str:
    """Return the name of a scheme, given the letters of these tags: IOB2, IOBES, BMES, BILOU."""
    if scheme == "iobes":
        return {"MES": "BMES", "ILU": "BILOU"}.get(letters_of(tags), "IOBES")
    return "a label a word" if scheme == "none" else scheme.upper()


def letters_of(tags: Iterable[str]) -> str:
    """Return the letters that IOBES, BMES or BILOU tags use inside, at the end and for a single
    word.
    """
    seen = {tag[:1] for tag in tags}
    return ("M" if "M" in seen else "I") + ("LU" if seen & {"L", "U"} else "ES")
