"""Read files for tagging: words in columns or rows, lists of words, and texts with marked entities.

The tags are read by one scheme, mended and converted as the options say (`schemes.py`).
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
from bertwright.labelled.file import File, LabelledTable, Reader, Stream
from bertwright.labelled.label_names import UNSEEN, expected_label
from bertwright.labelled.tagged.schemes import (
    detect_scheme,
    letters_of,
    mend,
    scheme_title,
    split_tag,
    stray_tags,
)
from bertwright.labelled.tagged.texts import as_list, read_lists
from bertwright.labelled.tagged.words import are_words, is_conll, read_conll, read_words
from bertwright.rows.columns import NAMES, plain

_MISSPELT = re.compile(r"\d+|[bies]-.+|[BIESbies][_/.:].+|.+[-_/.:][BIES]")
"""An entity tag in an unsupported spelling: `3`, `b-per`, `B_PER`, `PER-B`."""


def read_tagging(file: File) -> Stream:
    """Read the sentences of a file, with tags that follow one scheme."""
    label, form = file.options.require_labels, _form(file)
    if form in ("conll", "conllu"):
        stream = read_conll(file, universal=form == "conllu")
    else:
        file.refuse_unused(("text", "label"), "as sentences")
        table = file.table(form)
        in_rows = form in ("csv", "tsv") and (label or are_words(table.columns))
        in_rows = in_rows and not _are_lists(table)
        stream = (read_words if in_rows else read_lists)(table)
    if not label:
        return stream
    examples, scheme, title = _with_scheme(stream.examples, file)
    return replace(stream, examples=examples, scheme=scheme, format=f"{stream.format}; {title}")


def _are_lists(table: LabelledTable) -> bool:
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
    form = file.rows.form
    if form not in ("tsv", "text"):
        return form
    options, names = file.options, {*map(plain, file.rows.lines.first.split("\t"))}
    if form == "tsv" and are_words([*names]):
        return "tsv"
    if options.require_labels:
        return "conll"
    if options.format != "text" and is_conll(file.rows.lines, options.labels):
        return "conll"
    texts = {*map(plain, file.chosen.texts()), *NAMES["texts"][0]}
    return "text" if form == "text" else "tsv" if names & texts else "conll"


def _with_scheme(
    examples: Iterable[Example], file: File
) -> tuple[list[TaggingExample], Scheme, str]:
    """Return the examples with tags in one scheme, the scheme, and its name."""
    options, log, labels = file.options, file.log, file.options.labels
    sentences = [(each, each.tags or ()) for each in examples if isinstance(each, TaggingExample)]
    if options.label_map:
        sentences = [
            (each, tuple(_mapped(tag, options.label_map) for tag in tags))
            for each, tags in sentences
        ]
    counts = Counter(chain.from_iterable(tags for _, tags in sentences))
    detected = detect_scheme(tags for _, tags in sentences)
    given = "iob2" if detected == "iob1" and options.iob1_as_iob2 else detected
    given = options.as_scheme or given
    scheme = given if "none" in (options.as_scheme, detected) else detected
    letters_of_file = letters_of(counts)
    letters = letters_of_file if labels is None else letters_of(labels)
    known = {*(labels or ())}
    if scheme != "none" and (strays := stray_tags(counts)):
        raise _stray_tag(sentences, strays, scheme, detected != "none", file)
    converted = list[TaggingExample]()
    for each, tags in sentences:
        right = mend(tags, scheme, letters_of_file)
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


def _stray_tag(
    sentences: Sequence[tuple[TaggingExample, Sequence[str]]],
    strays: set[str],
    scheme: Scheme,
    few: bool,
    file: File,
) -> DataError:
    """Return the error for the first tag outside the scheme; it names the tag as the file has it.

    If only few tags are, the error has the option that reads them as O. A tag that is also a type,
    as PER beside B-PER, has none, because the option would rename the type.
    """
    found = [
        (each.line, word, tag)
        for each, mapped in sentences
        for word, (tag, read) in enumerate(zip(each.tags or (), mapped, strict=True), 1)
        if read in strays
    ]
    line, word, tag = found[0]
    message = (
        f"{file.log.at(line)}, word {word:,}: the tag {shorten(tag)} is not in the scheme "
        f"{scheme}; expected O, or a letter with a type, as B-PER. Correct the file, or "
    )
    names = dict.fromkeys((tag for _, _, tag in found), "O")
    types = {split_tag(tag)[1] for each, _ in sentences for tag in each.tags or ()}
    if not few or types & names.keys():
        return DataError(f"{message}name another column of tags with --label")
    return DataError(
        f"{message}read the tag as O: --label-map {tag}=O",
        ["--label-map", *(f"{a}={b}" for a, b in {**file.options.label_map, **names}.items())],
    )


TAGS = Reader(read_tagging, words=True)
