"""How tags mark entities: finding the scheme of a file, reading it as conlleval does, mending it.

| scheme | first word | further words | last word | only word |
|---|---|---|---|---|
| iob1 | I, or B right after an entity of the same type | I | I | I or B |
| iob2 | B | I | I | B |
| iobes | B | I | E | S |

IOBES goes by other letters too: BMES writes M for I; BILOU writes L for E and U for S. Files keep
their letters; `split_tag` gives the letters of IOBES. Where an entity begins and ends in a sequence
that breaks its scheme is decided as in conlleval (Tjong Kim Sang and Buchholz 2000).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from bertwright.config.task import Scheme

_TAG = re.compile(r"([BIESMLU])(?:-(.+))?", re.DOTALL)  # bare: of one type, without a name
_SAME = {"M": "I", "L": "E", "U": "S"}
_MOST_STRAYS = 0.1
"""Fraction of words whose tags are no entity tags, in a file of entity tags with slips."""


def split_tag(tag: str) -> tuple[str, str]:
    """`("B", "PER")` of `B-PER`; `("O", "")` outside; M, L and U become I, E and S."""
    found = _TAG.fullmatch(tag)
    return (_SAME.get(found[1], found[1]), found[2] or "") if found else ("O", "")


def detect_scheme(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme that the tags of all sentences follow; `none` of tags that are neither O nor a
    letter with a type, as parts of speech, and of O alone. Where nearly all words have tags of a
    scheme, the others are slips (`stray_tags`). What is legal in both IOB1 and IOB2 is IOB2."""
    sentences = list(sentences)
    counts = Counter(tag for sentence in sentences for tag in sentence)
    strays = stray_tags(counts)
    letters = {tag[:1] for tag in counts.keys() - strays - {"O"}}
    needed = "BISU" if any(label for _, label in map(split_tag, counts)) else "B"
    most = _MOST_STRAYS * counts.total()
    if not letters.intersection(needed) or sum(counts[tag] for tag in strays) > most:
        return "none"
    if letters & set("ESMLU"):
        return "iobes"
    begins = Counter(tags[start][0] for tags in sentences for start, _, _ in chunks(tags))
    # A file of IOB2 with some entities that wrongly begin with I has more that begin with B.
    return "iob1" if begins["I"] > begins["B"] else "iob2"


def stray_tags(tags: Iterable[str]) -> set[str]:
    """Those that mark no entity; beside tags with a type also those without, but for O."""
    found = set(tags) - {"O"}
    typed = {tag for tag in found if split_tag(tag)[1]}
    return found - typed if typed else {tag for tag in found if not _TAG.fullmatch(tag)}


def chunks(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Entities as `(first word, one after the last, type)`, read as conlleval does: one begins at
    B, at S, after O, E or S, and where the type changes, whatever the scheme says; so one rule
    reads IOB1, IOB2 and IOBES, and every sequence has a reading."""
    found = []
    start, before = 0, ("O", "")
    for number, each in enumerate([*map(split_tag, tags), ("O", "")]):
        inside = before[0] != "O"
        begins = each[0] in "BS" or before[0] in "OES" or before[1] != each[1]
        if inside and (each[0] == "O" or begins):
            found.append((start, number, before[1]))
        if each[0] != "O" and (begins or not inside):
            start = number
        before = each
    return found


def mend(tags: Sequence[str], scheme: Scheme, letters: str = "IES") -> tuple[str, ...]:
    """The same entities, tagged as the scheme says; legal tags come back as they are, with `none`
    all. `letters` is what IOBES writes inside, at the end and for an only word: `MES`, `ILU`."""
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
    """What a scheme is called with the letters of these tags: IOB2, IOBES, BMES, BILOU."""
    if scheme == "none":
        return "a label a word"
    names = {"MES": "BMES", "ILU": "BILOU"} if scheme == "iobes" else {}
    return names.get(letters_of(tags), scheme.upper())


def letters_of(tags: Iterable[str]) -> str:
    """What a file in IOBES, BMES or BILOU writes inside, at the end and for an only word."""
    seen = {tag[:1] for tag in tags}
    return ("M" if "M" in seen else "I") + ("LU" if seen & {"L", "U"} else "ES")
