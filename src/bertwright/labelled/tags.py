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
from dataclasses import replace
from typing import Literal

from bertwright.config.task import Scheme
from bertwright.errors import DataError
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.source import BadRowLog, shorten
from bertwright.labelled.texts import unknown_label, warn_of_one_class

BadTags = Literal["mend", "refuse"]

_TAG = re.compile(r"([BIESMLU])-(.+)", re.DOTALL)
_SAME = {"M": "I", "L": "E", "U": "S"}
_BARE = (set("BIO"), set("BIESO"), set("BMESO"), set("BILUO"))  # one type, without a name
_MOST_STRAYS = 0.1
"""Fraction of words whose tags are no entity tags, in a file of entity tags with slips."""
_MISSPELT = re.compile(r"[bies]-.+|[BIESbies][_/.:].+|.+[-_/.:][BIES]")
"""A tag of an entity in another spelling: `b-per`, `B_PER`, `PER-B`."""


def split_tag(tag: str) -> tuple[str, str]:
    """`("B", "PER")` of `B-PER`; `("O", "")` outside; M, L and U become I, E and S."""
    found = _TAG.fullmatch(tag)
    letter, label = (found[1], found[2]) if found else (tag, "")
    if letter not in "BIESMLU" or len(letter) != 1:
        return "O", ""
    return _SAME.get(letter, letter), label


def detect_scheme(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme that the tags of all sentences follow.

    `none` where tags are neither O nor a letter with a type, as parts of speech; a file of O alone
    is `none` too. Where nearly all words have tags of a scheme, the others are slips
    (`stray_tags`). Where all is legal in both IOB1 and IOB2, it is IOB2.

    Args:
        sentences: the tags of each sentence.
    """
    sentences = list(sentences)
    counts = Counter(tag for sentence in sentences for tag in sentence)
    strays = stray_tags(counts)
    letters = {tag[:1] for tag in counts.keys() - strays - {"O"}}
    needed = "B" if not any(map(_TAG.fullmatch, counts)) else "BI" if strays else letters
    if not letters.intersection(needed):
        return "none"
    if sum(counts[tag] for tag in strays) > _MOST_STRAYS * counts.total():
        return "none"
    if letters & set("ESMLU"):
        return "iobes"
    first_inside = first_begin = 0
    for sentence in sentences:
        before = ("O", "")
        for each in map(split_tag, sentence):
            follows = before[0] != "O" and before[1] == each[1]
            first_inside += each[0] == "I" and not follows
            first_begin += each[0] == "B" and not follows
            before = each
    # A file of IOB2 with some entities that wrongly begin with I has more that begin with B.
    return "iob1" if first_inside > first_begin else "iob2"


def stray_tags(tags: Iterable[str]) -> set[str]:
    """Those that mark no entity; beside tags with a type also those without, but for O."""
    found = set(tags) - {"O"}
    typed = {tag for tag in found if _TAG.fullmatch(tag)}
    return found - typed if typed or not any(found <= bare for bare in _BARE) else set()


def chunks(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Entities as `(first word, one after the last, type)`, read as conlleval does.

    An entity begins at B, at S, after O, E or S, and where the type changes, whatever the scheme
    says; so one rule reads IOB1, IOB2 and IOBES, and every sequence has a reading.
    """
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
    """The same entities, tagged as the scheme says; legal tags come back as they are.

    Args:
        scheme: of the tags; with `none` nothing is changed.
        letters: what IOBES writes inside, at the end and for an only word: `MES`, `ILU`.
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
    """What a scheme is called with the letters of these tags: IOB2, IOBES, BMES, BILOU."""
    if scheme == "none":
        return "a label a word"
    names = {"MES": "BMES", "ILU": "BILOU"} if scheme == "iobes" else {}
    return names.get(letters_of(tags), scheme.upper())


def letters_of(tags: Iterable[str]) -> str:
    """What a file in IOBES, BMES or BILOU writes inside, at the end and for an only word."""
    seen = {tag[:1] for tag in tags}
    return ("M" if "M" in seen else "I") + ("LU" if seen & {"L", "U"} else "ES")


def with_scheme(
    examples: list[TaggingExample],
    log: BadRowLog,
    *,
    labels: Sequence[str] | None,
    as_scheme: Scheme | None,
    iob1_as_iob2: bool,
    bad_tags: BadTags,
    in_columns: bool,
) -> tuple[list[TaggingExample], Scheme, str]:
    """The examples with tags that follow one scheme, the scheme, and what it is called.

    Args:
        examples: all of a file.
        log: takes the warnings.
        labels: the known tags; another one is an error.
        as_scheme: that of training, in which tags of another one are given, the same entities.
        iob1_as_iob2: whether to give tags in IOB1 as IOB2.
        bad_tags: `mend` mends a sequence that breaks the scheme, as conlleval reads it, and counts
            it; `refuse` stops.
        in_columns: each word has a line of its own.

    Raises:
        DataError: a tag that is none of the scheme or unknown, or a bad sequence; names its line.
    """

    def where(example: TaggingExample, word: int) -> str:
        if in_columns:
            return f"{log.unit} {example.line + word:,}"
        return f"{log.unit} {example.line:,}, word {word + 1:,}"

    scheme = detect_scheme(each.tags or () for each in examples)
    given = as_scheme or ("iob2" if scheme == "iob1" and iob1_as_iob2 else scheme)
    if "none" in (as_scheme, scheme):
        scheme = given
    counts = Counter(tag for each in examples for tag in each.tags or ())
    letters, strays = letters_of(counts), stray_tags(counts)
    if scheme == "none":
        _warn_of_entities(counts, strays, log)
        strays = set()
    checked, words, mended = list[TaggingExample](), 0, list[str]()
    for each in examples:
        tags = each.tags or ()
        if strays and (stray := [number for number, tag in enumerate(tags) if tag in strays]):
            raise DataError(
                f"{log.name}, {where(each, stray[0])}: the tag {shorten(tags[stray[0]])} is none "
                f"of the scheme {scheme}; expected O, or a letter with a type, as B-PER"
            )
        right = mend(tags, scheme, letters)
        if right != tags:
            wrong = [number for number, tag in enumerate(tags) if tag != right[number]]
            mended.append(where(each, wrong[0]))
            words += len(wrong)
            if bad_tags == "refuse":
                at = wrong[0]
                raise DataError(
                    f"{log.name}, {mended[0]}: the tag {shorten(tags[at])} breaks the scheme "
                    f"{scheme} after {shorten(tags[at - 1]) if at else 'the start'}; expected "
                    f"{shorten(right[at])}. To mend such tags: --bad-tags mend"
                )
            each = replace(each, tags=right)
        checked.append(each)
    if mended:
        log.warn(
            f"{words:,} tags in {len(mended):,} sentences break the scheme {scheme} and "
            f"were mended as conlleval reads them (first at {mended[0]}). To stop at such tags: "
            "--bad-tags refuse"
        )
        counts = Counter(tag for each in checked for tag in each.tags or ())
    warn_of_one_class(counts, counts.total(), log)
    title = scheme_title(scheme, counts)
    if given != scheme or as_scheme == "iobes":  # which goes by several letters
        letters = letters_of(labels or ())
        checked = [replace(e, tags=mend(e.tags or (), given, letters)) for e in checked]
        title += "" if given == scheme else f", given as {given.upper()}"
        counts = Counter(tag for each in checked for tag in each.tags or ())
    if labels is not None and (unknown := counts.keys() - {*labels}):
        for each in checked:
            for number, tag in enumerate(each.tags or ()):
                if tag in unknown:
                    raise unknown_label(tag, labels, f"{log.name}, {where(each, number)}")
    return checked, given, title


def _warn_of_entities(counts: Counter[str], strays: set[str], log: BadRowLog) -> None:
    """Warn where some tags begin an entity, but too many others mark none, and where all look like
    those of entities, but are spelled otherwise."""
    without = "each is a label of its word, and there are no entities"
    begins = [tag for tag in counts if split_tag(tag)[0] == "B" and tag not in strays]
    if begins and strays:
        most = max(strays, key=lambda tag: counts[tag])
        log.warn(
            f"some tags are as those of entities ({shorten(begins[0])}), but "
            f"{sum(counts[tag] for tag in strays):,} of {counts.total():,} are not (most often "
            f"{shorten(most)}): {without}"
        )
    named = [tag for tag in counts if tag not in ("O", "o")]
    numbers = len(named) > 1 and all(map(str.isdecimal, named))
    if numbers or (named and all(map(_MISSPELT.fullmatch, named)) and not begins):
        log.warn(
            f"the tags are {'numbers' if numbers else f'as {shorten(named[0])}'}; if they mark "
            f"entities, write them as B-PER, I-PER and O: so {without}"
        )
