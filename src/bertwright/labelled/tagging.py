"""Tagging: which form a file has, its sentences, and the scheme that its tags follow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from bertwright.config.task import Form, Scheme
from bertwright.errors import DataError
from bertwright.labelled.columns import NAMES, plain
from bertwright.labelled.examples import Example, TaggingExample
from bertwright.labelled.file import File, Stream
from bertwright.labelled.source import shorten
from bertwright.labelled.tagged_texts import read_lists
from bertwright.labelled.tagged_words import are_words, is_conll, read_conll, read_words
from bertwright.labelled.tags import detect_scheme, letters_of, mend, scheme_title, stray_tags
from bertwright.labelled.texts import UNSEEN, expected_label

_MISSPELT = re.compile(r"\d+|[bies]-.+|[BIESbies][_/.:].+|.+[-_/.:][BIES]")
"""A tag of an entity in another spelling: `3`, `b-per`, `B_PER`, `PER-B`."""


def read_tagging(file: File) -> Stream:
    """The sentences of a file, with tags that follow one scheme."""
    label, file.form = file.options.require_labels, _form(file)
    if file.form in ("conll", "conllu"):
        found = read_conll(file)
    else:
        file.refuse_unused(("text", "label"), "as sentences")
        table, chosen = file.table()
        in_rows = file.form in ("csv", "tsv") and (label or are_words(table.columns))
        found = (read_words if in_rows else read_lists)(file, table, chosen)
    if label:
        found.examples, found.scheme, title = _with_scheme(found.examples, file)
        found.format += f"; {title}"
    return found


def _form(file: File) -> Form:
    """The form of a file to be tagged: TSV is a table only if its header names words and sentences
    or, without labels, texts; else a word a line."""
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
    """The examples with tags that follow one scheme, the scheme, and what it is called."""
    options, log, labels = file.options, file.log, file.options.labels
    sentences = [(each, each.tags or ()) for each in examples if isinstance(each, TaggingExample)]
    counts = Counter(chain.from_iterable(tags for _, tags in sentences))
    scheme = detect_scheme(tags for _, tags in sentences)
    given = options.as_scheme or ("iob2" if scheme == "iob1" and options.iob1_as_iob2 else scheme)
    if "none" in (options.as_scheme, scheme):
        scheme = given
    own = letters_of(counts)
    letters = own if labels is None else letters_of(labels)
    strays, known = stray_tags(counts) if scheme != "none" else set(), {*(labels or ())}
    kept = list[TaggingExample]()
    for each, tags in sentences:
        right = mend(tags, scheme, own)
        _refuse_tag(each, right, scheme, strays, file)
        if right != tags:
            what = f"sentences with tags that break the scheme {scheme}"
            log.mended.add(each.line, f"{what}, mended as conlleval reads them")
        if (given, letters) != (scheme, own):
            right = mend(right, given, letters)
        unseen = [tag for tag in right if tag not in known]
        if labels is None or not unseen:
            kept.append(replace(each, tags=right))
        else:
            log.bad(each.line, UNSEEN, shorten(unseen[0]), expected_label(unseen[0], labels))
    named = [tag for tag in counts if tag not in ("O", "o")]
    if scheme == "none" and named and all(map(_MISSPELT.fullmatch, named)):
        log.warn(
            f"the tags are as {shorten(named[0])}; if they mark entities, write them as B-PER, "
            "I-PER and O: so each is a label of its word"
        )
    title = scheme_title(scheme, counts)
    return kept, given, title if given == scheme else f"{title}, given as {given.upper()}"


def _refuse_tag(
    example: TaggingExample, right: Sequence[str], scheme: Scheme, strays: set[str], file: File
) -> None:
    """Raise DataError for a tag that is none of the scheme or, with `--bad-tags refuse`, breaks
    it."""
    for word, (tag, mended) in enumerate(zip(example.tags or (), right, strict=True), 1):
        if tag in strays:
            what = f"is none of the scheme {scheme}; expected O, or a letter with a type, as B-PER"
        elif tag != mended and file.options.bad_tags == "refuse":
            what = f"breaks the scheme {scheme}; expected {shorten(mended)}. To mend such tags: "
            what += "--bad-tags mend"
        else:
            continue
        raise DataError(
            f"{file.log.at(example.line)}, word {word:,}: the tag {shorten(tag)} {what}"
        )
