"""Tagging: which form a file has, its sentences, and the scheme that its tags follow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from bertwright.config.task import Form, Scheme
from bertwright.errors import DataError
from bertwright.labelled.columns import Columns, plain
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.file import File, Stream
from bertwright.labelled.source import shorten, suffix_of
from bertwright.labelled.table import FORMS
from bertwright.labelled.tagged_texts import TEXTS, line_examples, tagging_columns, tagging_examples
from bertwright.labelled.tagged_words import (
    are_words,
    conll_examples,
    is_conll,
    layout_of,
    tag_index,
    word_columns,
    word_examples,
)
from bertwright.labelled.tags import (
    detect_scheme,
    letters_of,
    mend,
    scheme_title,
    stray_tags,
)
from bertwright.labelled.texts import UNSEEN, expected_label

_MISSPELT = re.compile(r"[bies]-.+|[BIESbies][_/.:].+|.+[-_/.:][BIES]")
"""A tag of an entity in another spelling: `b-per`, `B_PER`, `PER-B`."""


def read_tagging(file: File) -> Stream:
    """The sentences of a file, with tags that follow one scheme."""
    source, form, label = file.source, _form(file), file.options.require_labels
    examples: Iterable[TaggingExample]
    if form == "text":
        file.refuse_unused((), "as plain text")
        found = file.found(line_examples(source), Columns(), "plain text, split into words")
    elif form in ("conll", "conllu"):
        file.refuse_unused(("label",), "as a word a line")
        layout, tag = layout_of(source, form == "conllu"), None
        if label:
            tag = tag_index(source, layout, file.chosen.label, file.options.hint.label)
        examples = conll_examples(source, layout, tag, file.log)
        columns = file.chosen if label else Columns()
        found = file.found(examples, columns, layout.in_words(tag))
    else:
        file.refuse_unused(("text", "label"), "as sentences")
        table, chosen = file.table(form)
        if (form == "csv" and label) or (form in ("csv", "tsv") and are_words(table.columns)):
            columns, sentences = word_columns(table, chosen, label=label)
            examples = word_examples(table, columns, sentences)
            found = file.found(examples, columns, table, [sentences])
        else:
            columns = tagging_columns(table, chosen, label=label)
            found = file.found(tagging_examples(table, columns), columns, table)
    if label:
        examples = [each for each in found.examples if isinstance(each, TaggingExample)]
        found.examples, found.scheme, title = _with_scheme(examples, file)
        found.format += f"; {title}"
    return found


def _form(file: File) -> Form:
    """The form of a file to be tagged: TSV is a table only if its header names words and sentences
    or, without labels, texts; else a word a line."""
    source, options = file.source, file.options
    if file.form not in ("tsv", "text"):
        return file.form
    named = options.format or FORMS.get(suffix_of(source.path))
    header = source.first.split("\t")
    if file.form == "tsv" and are_words(header):
        return "tsv"
    if options.require_labels or is_conll(source, options.labels):
        return "text" if named == "text" else "conll"
    names = {*map(plain, (*file.chosen.texts(), *TEXTS[0]))}
    if file.form == "tsv" and names.intersection(map(plain, header)):
        return "tsv"
    return "conll" if named == "tsv" else "text"


def _with_scheme(
    examples: list[TaggingExample], file: File
) -> tuple[list[TaggingExample], Scheme, str]:
    """The examples with tags that follow one scheme, the scheme, and what it is called.

    Raises:
        DataError: a tag that is none of the scheme or unknown, or a bad sequence.
    """
    options, log, labels = file.options, file.log, file.options.labels
    scheme = detect_scheme(each.tags or () for each in examples)
    given = options.as_scheme or ("iob2" if scheme == "iob1" and options.iob1_as_iob2 else scheme)
    if "none" in (options.as_scheme, scheme):
        scheme = given
    counts = Counter(tag for each in examples for tag in each.tags or ())
    strays = stray_tags(counts) if scheme != "none" else set()
    own = letters_of(counts)
    letters = own if labels is None else letters_of(labels)
    known = {*(labels or ())}
    kept, mended = list[TaggingExample](), list[int]()
    for each in examples:
        tags = each.tags or ()
        if stray := [tag for tag in tags if tag in strays]:
            raise DataError(
                f"{log.at(each.line)}, word {tags.index(stray[0]) + 1:,}: the tag "
                f"{shorten(stray[0])} is none of the scheme {scheme}; expected O, or a letter with "
                "a type, as B-PER"
            )
        right = mend(tags, scheme, own)
        if right != tags:
            mended.append(each.line)
            if options.bad_tags == "refuse":
                word = next(n for n, tag in enumerate(tags) if tag != right[n])
                raise DataError(
                    f"{log.at(each.line)}, word {word + 1:,}: the tag {shorten(tags[word])} breaks "
                    f"the scheme {scheme}; expected {shorten(right[word])}. To mend such tags: "
                    "--bad-tags mend"
                )
        if (given, letters) != (scheme, own):
            right = mend(right, given, letters)
        unseen = [tag for tag in right if tag not in known]
        if labels is None or not unseen:
            kept.append(replace(each, tags=right))
        else:
            log.bad(each.line, UNSEEN, shorten(unseen[0]), expected_label(unseen[0], labels))
    if mended:
        log.warn(
            f"the tags of {len(mended):,} sentences break the scheme {scheme} and were mended as "
            f"conlleval reads them (first at {log.unit} {mended[0]:,})"
        )
    named = [tag for tag in counts if tag not in ("O", "o")]
    numbers = len(named) > 1 and all(map(str.isdecimal, named))
    if scheme == "none" and (numbers or (named and all(map(_MISSPELT.fullmatch, named)))):
        log.warn(
            f"the tags are {'numbers' if numbers else f'as {shorten(named[0])}'}; if they mark "
            "entities, write them as B-PER, I-PER and O: so each is a label of its word"
        )
    title = scheme_title(scheme, counts)
    return kept, given, title if given == scheme else f"{title}, given as {given.upper()}"
