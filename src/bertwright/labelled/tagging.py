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
from bertwright.labelled.source import SKIP, BadRowLog, shorten, suffix_of
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
    split_tag,
    stray_tags,
)
from bertwright.labelled.texts import UNSEEN, unknown_label, warn_of_one_class

_MISSPELT = re.compile(r"[bies]-.+|[BIESbies][_/.:].+|.+[-_/.:][BIES]")
"""A tag of an entity in another spelling: `b-per`, `B_PER`, `PER-B`."""


def read_tagging(file: File) -> Stream:
    """The sentences of a file, with tags that follow one scheme."""
    source, form, label = file.source, _form(file), file.options.require_labels
    examples: Iterable[TaggingExample]
    in_columns = False
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
        in_columns = not (layout.a_line or layout.numbered)
    else:
        file.refuse_unused(("text", "label"), "as sentences")
        table, chosen = file.table(form)
        in_columns = form == "csv" and label
        in_columns |= form in ("csv", "tsv") and are_words(table.columns)
        if in_columns:
            columns, sentences = word_columns(table, chosen, label=label)
            examples = word_examples(table, columns, sentences)
            found = file.found(examples, columns, table, [sentences])
        else:
            columns = tagging_columns(table, chosen, label=label)
            found = file.found(tagging_examples(table, columns), columns, table)
    if label:
        examples = [each for each in found.examples if isinstance(each, TaggingExample)]
        found.examples, found.scheme, title = _with_scheme(examples, file, in_columns)
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
    examples: list[TaggingExample], file: File, in_columns: bool
) -> tuple[list[TaggingExample], Scheme, str]:
    """The examples with tags that follow one scheme, the scheme, and what it is called.

    Raises:
        DataError: a tag that is none of the scheme or unknown, or a bad sequence; names its line,
            where words have lines of their own (`in_columns`), else its sentence's.
    """
    options, log, labels = file.options, file.log, file.options.labels

    def where(example: TaggingExample, word: int) -> str:
        if in_columns:
            return f"{log.unit} {example.line + word:,}"
        return f"{log.unit} {example.line:,}, word {word + 1:,}"

    as_scheme = options.as_scheme
    scheme = detect_scheme(each.tags or () for each in examples)
    given = as_scheme or ("iob2" if scheme == "iob1" and options.iob1_as_iob2 else scheme)
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
            at, *others = (number for number, tag in enumerate(tags) if tag != right[number])
            mended.append(where(each, at))
            words += 1 + len(others)
            if options.bad_tags == "refuse":
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
    if labels is not None and counts.keys() - {*labels}:
        kept = []
        for each in checked:
            tags = each.tags or ()
            unseen = next((n for n, tag in enumerate(tags) if tag not in labels), None)
            if unseen is None:
                kept.append(each)
            elif log.policy == "refuse":
                error = unknown_label(tags[unseen], labels, f"{log.name}, {where(each, unseen)}")
                raise DataError(f"{error}. {SKIP}")
            else:
                log.leave_out(each.line, UNSEEN)
        checked = kept
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
