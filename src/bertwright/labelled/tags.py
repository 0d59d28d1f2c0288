"""Read files for tagging, and detect and convert tagging schemes.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from bertwright.config.task import Form, Scheme
from bertwright.errors import DataError, shorten
from bertwright.labelled.examples import Example, TaggingExample
from bertwright.labelled.file import File, Reader, Stream
from bertwright.labelled.tables.columns import NAMES, plain
from bertwright.labelled.tables.label_names import UNSEEN, expected_label
from bertwright.labelled.tables.table import Table
from bertwright.labelled.tagged_texts import as_list, read_lists
from bertwright.labelled.tagged_words import are_words, is_conll, read_conll, read_words

_TAG = re.compile(r"([BIESMLU])(?:-(.+))?", re.DOTALL)  # a letter alone: the one type has no name
_SAME = {"M": "I", "L": "E", "U": "S"}
_MISSPELT = re.compile(r"\d+|[bies]-.+|[BIESbies][_/.:].+|.+[-_/.:][BIES]")
"""An entity tag in an unsupported spelling: `3`, `b-per`, `B_PER`, `PER-B`."""


def read_tagging(file: File) -> Stream:
    """Read the sentences of a file, with tags that follow one scheme."""
    label, file.form = file.options.require_labels, _form(file)
    if file.form in ("conll", "conllu"):
        stream = read_conll(file)
    else:
        file.refuse_unused(("text", "label"), "as sentences")
        table = file.table()
        in_rows = file.form in ("csv", "tsv") and (label or are_words(table.columns))
        in_rows = in_rows and not _are_lists(table)
        stream = (read_words if in_rows else read_lists)(file, table)
    if label:
        stream.examples, stream.scheme, title = _with_scheme(stream.examples, file)
        stream.format += f"; {title}"
    return stream


def _are_lists(table: Table) -> bool:
    """Return whether a column of words has lists that are written as text in its first rows."""
    words = [*chain(*NAMES["words"])]
    rows = table.sample()
    return any(
        bool(rows)
        and plain(name) in words
        and all(isinstance(as_list(row[at]), list) for row in rows)
        for at, name in enumerate(table.columns)
    )


def _form(file: File) -> Form:
    """Return the format of a file for tagging.

    TSV is a table only if its header names words and sentences or, without labels, texts; otherwise
    it has one word a line.
    """
    if file.form not in ("tsv", "text"):
        return file.form
    options, names = file.options, {*map(plain, file.source.first.split("\t"))}
    if file.form == "tsv" and are_words([*names]):
        return "tsv"
    if options.require_labels:
        return "conll"
    if options.format != "text" and is_conll(file.source, options.labels):
        return "conll"
    texts = {*map(plain, file.chosen.texts()), *NAMES["texts"][0]}
    return "text" if file.form == "text" else "tsv" if names & texts else "conll"


def _with_scheme(
    examples: Iterable[Example], file: File
) -> tuple[list[TaggingExample], Scheme, str]:
    """Return the examples with tags in one scheme, the scheme, and its name."""
    options, log, labels = file.options, file.log, file.options.labels
    sentences = [(each, each.tags or ()) for each in examples if isinstance(each, TaggingExample)]
    if options.label_map:
        mapped = [tuple(_mapped(t, options.label_map) for t in tags) for _, tags in sentences]
        sentences = [(replace(e, tags=t), t) for (e, _), t in zip(sentences, mapped, strict=True)]
    counts = Counter(chain.from_iterable(tags for _, tags in sentences))
    scheme = detect_scheme(tags for _, tags in sentences)
    given = options.as_scheme or ("iob2" if scheme == "iob1" and options.iob1_as_iob2 else scheme)
    if "none" in (options.as_scheme, scheme):
        scheme = given
    letters_of_file = letters_of(counts)
    letters = letters_of_file if labels is None else letters_of(labels)
    strays, known = stray_tags(counts) if scheme != "none" else set(), {*(labels or ())}
    converted = list[TaggingExample]()
    for each, tags in sentences:
        right = mend(tags, scheme, letters_of_file)
        if right != tags or strays:
            _refuse_tag(each, right, scheme, strays, file)
        if right != tags:
            what = f"sentences with tags that break the scheme {scheme}"
            log.mended.add(each.line, f"{what}, corrected as conlleval reads them")
        if (given, letters) != (scheme, letters_of_file):
            right = mend(right, given, letters)
        unseen = [tag for tag in right if tag not in known]
        if labels is None or not unseen:
            converted.append(replace(each, tags=right))
        else:
            log.bad(each.line, UNSEEN, shorten(unseen[0]), expected_label(unseen[0], labels))
    named = [tag for tag in counts if tag not in ("O", "o")]
    if scheme == "none" and named and all(map(_MISSPELT.fullmatch, named)):
        log.warn(
            f"the tags look like {shorten(named[0])}, so each is read as a label of its word; if "
            "they mark entities, write them as B-PER, I-PER and O"
        )
    title = scheme_title(scheme, counts)
    return converted, given, title if given == scheme else f"{title}, given as {given.upper()}"


def _mapped(tag: str, names: Mapping[str, str]) -> str:
    """Return the renamed tag. The name may be that of the whole tag or of its type, as `PER` in
    `B-PER`.
    """
    letter, sign, label = tag.partition("-")
    return names.get(tag) or (f"{letter}-{names[label]}" if sign and label in names else tag)


def _refuse_tag(
    example: TaggingExample, right: Sequence[str], scheme: Scheme, strays: set[str], file: File
) -> None:
    """Raise DataError for a tag outside the scheme or, with `--bad-tags refuse`, one that breaks
    it.
    """
    for word, (tag, mended) in enumerate(zip(example.tags or (), right, strict=True), 1):
        if tag in strays:
            what = f"is not in the scheme {scheme}; expected O, or a letter with a type, as B-PER"
        elif tag != mended and file.options.bad_tags == "refuse":
            what = f"breaks the scheme {scheme}; expected {shorten(mended)} (or --bad-tags mend)"
        else:
            continue
        where = f"{file.log.at(example.line)}, word {word:,}"
        raise DataError(f"{where}: the tag {shorten(tag)} {what}")


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


TAGS = Reader(read_tagging, words=True)
