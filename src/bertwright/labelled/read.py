"""Users' own labelled files, in whatever common form they come, to examples.

The form is told by the name and the first lines; what was found is told in `Read.format`. A row
that cannot be read stops the reading with its line, or is left out and counted. All forms, columns
and options are listed in docs/tasks-formats.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from bertwright.config.task import KINDS, Kind, Scheme
from bertwright.errors import ConfigError, DataError
from bertwright.labelled import choices, conll, squad
from bertwright.labelled.bad_rows import BadRowLog, BadRows, Skipped
from bertwright.labelled.columns import Columns, find_texts, plain, refuse_some_classes, split_label
from bertwright.labelled.delimited import delimited_table, delimiter_of, has_header, is_csv
from bertwright.labelled.examples import Example, TaggingExample, TextExample, labels_of
from bertwright.labelled.sources import Source, name_of, open_source, suffix_of
from bertwright.labelled.squad import Answers, WrongAnswers
from bertwright.labelled.tables import Table, json_lines, json_of, json_table, parquet_table
from bertwright.labelled.tag_schemes import detect_scheme, letters_of, mend, scheme_title
from bertwright.labelled.tagging_rows import (
    TEXTS,
    BadTags,
    check_known_tags,
    check_tags,
    line_examples,
    tagging_columns,
    tagging_examples,
)
from bertwright.labelled.text_rows import LabelRules, check_labels, text_examples, text_lines
from bertwright.labelled.word_rows import are_words, word_columns, word_examples


@dataclass
class Read:
    """The examples of one file, and what was met on the way."""

    examples: Sequence[Example]
    columns: Columns
    """The columns that were found; None for what the file or the task has not."""
    format: str
    """In words: `TSV with the columns text, label`."""
    warnings: list[str] = field(default_factory=list)
    skipped: dict[str, Skipped] = field(default_factory=dict)
    """Rows left out, by reason."""
    scheme: Scheme = "none"
    """How the tags mark entities (tagging)."""


@dataclass
class Stream:
    """The examples of one file of any size, read as they are asked for; to be gone through once."""

    examples: Iterator[Example]
    columns: Columns
    format: str
    log: BadRowLog
    """What was left out, complete when all is read."""
    source: Source | None = None
    """None: Parquet."""

    def warnings(self) -> list[str]:
        """What there is to tell, when all is read."""
        return [*self.log.warnings, *_replaced(self.source), *self.log.summary()]


class _Found(NamedTuple):
    """What a form of file gives: its examples, to be gone through once."""

    examples: Iterable[Example]
    columns: Columns
    format: str
    scheme: Scheme = "none"


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read."""

    require_labels: bool = True
    """Without, labels are not read, and plain text is taken a line an example."""
    labels: Sequence[str] | None = None
    """The known ones; another one is refused."""
    multi_label: bool = False
    """A label is any number of classes: a list, or a text with commas."""
    pair: bool | None = None
    """Whether there are two texts; None: find out."""
    hint: Columns = field(default_factory=Columns)
    """Columns of the training file, taken where they are there and nothing is asked for."""
    tag_column: int | str | None = None
    """The column of tags, by number from 1 (-1 the last) or by name."""
    iob1_as_iob2: bool = False
    """Give tags in IOB1 as IOB2, the same entities."""
    as_scheme: Scheme | None = None
    """That of training, in which tags of another one are given, the same entities."""
    bad_tags: BadTags = "mend"
    """Whether sequences that break the scheme are mended or refused."""
    bad_rows: BadRows = "refuse"
    """Whether rows that cannot be read stop the reading or are left out."""
    wrong_answers: WrongAnswers = "skip"
    """What becomes of answers that are not at their `answer_start`: `skip` them (to train), `keep`
    them (to evaluate: their texts still count), or `refuse` them."""


def read_examples(
    path: Path | str,
    kind: Kind,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    options: ReadOptions = ReadOptions(),
) -> Read:
    """Read one file of examples; `-` is standard input.

    Args:
        path: TSV, CSV, JSON lines, JSON, Parquet, CoNLL columns, SQuAD JSON or plain text; all but
            Parquet from standard input too, and all in .gz, .xz, .bz2 and .zst.
        kind: of the task; says what the columns mean.
        columns: those that the user asks for.
        options: all else.

    Raises:
        DataError: a missing or doubled column, an unknown label, a bad row; names file and line.
        MissingExtra: the format needs a package that is not installed.
    """
    found, log, source = _open(Path(path), kind, columns, options)
    examples = list(found.examples)
    if not examples:
        raise DataError(f"{log.name} has no example. {' '.join(log.summary())}".strip())
    warnings = [*log.warnings, *_replaced(source), *log.summary()]
    return Read(examples, found.columns, found.format, warnings, log.skipped, found.scheme)


def stream_examples(
    path: Path | str,
    kind: Kind,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    options: ReadOptions = ReadOptions(),
) -> Stream:
    """Read one file without labels, of any size; `-` is standard input.

    JSON that is one value, as SQuAD's, and Parquet (as it is compressed) are held in memory whole;
    of all others no more than what is asked for. The arguments are those of `read_examples`; its
    errors come here, or when the bad row is reached. A file without examples is no error.
    """
    unlabelled = replace(options, require_labels=False)
    found, log, source = _open(Path(path), kind, columns, unlabelled)
    return Stream(iter(found.examples), found.columns, found.format, log, source)


def _open(
    path: Path, kind: Kind, columns: Columns, options: ReadOptions
) -> tuple[_Found, BadRowLog, Source | None]:
    if kind not in KINDS:
        raise ConfigError(f"kind is {kind!r}; expected one of {', '.join(KINDS)}")
    log = BadRowLog(name_of(path), options.bad_rows)
    source = None if suffix_of(path) == ".parquet" else open_source(path)
    named = [*columns.names(), *options.hint.names()]
    if source is not None and is_csv(source, named):
        source.suffix = ".csv"
    if kind == "tagging":
        found = _read_tagging(path, source, columns, options, log)
    elif kind == "span":
        found = _read_span(path, source, columns, options, log)
    else:
        found = _read_table(path, source, columns, kind, options, log)
    return found, log, source


def _replaced(source: Source | None) -> list[str]:
    """A warning of bytes that were no UTF-8."""
    if source is None or not source.report.invalid_utf8:
        return []
    return [
        f"{source.name}: {source.report.invalid_utf8:,} malformed UTF-8 sequences were replaced "
        f"by U+FFFD (first: {source.report.invalid_places[0]}). If it is of another encoding, as "
        "CSV of Excel is, convert it: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW"
    ]


def _open_table(
    path: Path,
    source: Source | None,
    asked: Columns,
    kind: str,
    options: ReadOptions,
    log: BadRowLog,
) -> Table:
    """The table that the file is.

    Raises:
        DataError: it is none.
    """
    if source is None:
        return parquet_table(path, log)
    if source.looks_like_json():
        value = json_of(source)
        return json_lines(source, log) if value is None else json_table(value, log)
    delimiter = delimiter_of(source)
    if delimiter is None and not options.require_labels:
        delimiter = "\t"  # one column under its name
    if delimiter is None:
        raise DataError(
            f"{source.name} has no columns; expected TSV, CSV (with a header, or under a name that "
            "ends with .csv), JSON lines, JSON or Parquet"
        )
    label = options.require_labels
    named = [name for name in asked.names() if label or name != asked.label]
    return delimited_table(
        source, delimiter, named, options.hint, log, kind=kind, label=label, pair=options.pair
    )


def _with_hint(asked: Columns, hint: Columns, there: Sequence[str]) -> Columns:
    """What was asked for, or where nothing was, what the hint names and the file has."""
    names = {plain(name) for name in there}
    texts = [name for name in (hint.text, hint.text2) if name is not None]
    texts_there = bool(texts) and all(plain(name) in names for name in texts)
    text, text2 = asked.text, asked.text2
    if text is None and text2 is None and texts_there:
        text, text2 = hint.text, hint.text2
    label = asked.label
    if label is None and hint.label is not None:
        parts = split_label(hint.label, there)
        if names >= {*map(plain, parts)} and not {text, text2} & {*parts}:
            label = hint.label
    return Columns(text, text2, label)


def _read_table(
    path: Path,
    source: Source | None,
    asked: Columns,
    kind: Kind,
    options: ReadOptions,
    log: BadRowLog,
) -> _Found:
    """Classification, regression and multiple choice."""
    if kind != "multiple-choice" and source is not None and _is_plain(source, asked, options):
        return _read_lines(source, options, log)
    table = _open_table(path, source, asked, kind, options, log)
    asked = _with_hint(asked, options.hint, table.columns)
    label = options.require_labels
    if label and asked.label is None:
        refuse_some_classes(table.columns, options.hint, table.name)
    if kind == "multiple-choice":
        found, several = choices.choice_columns(table, asked, label=label)
        chosen = choices.choice_examples(table, found, several, log)
        return _Found(chosen, found, _in_words(table, [*found.names(), *several]))
    if table.guessed:
        found = Columns(**table.guessed)
    else:
        found = find_texts(table.columns, asked, kind, table.name, pair=options.pair, label=label)
    rules = LabelRules(kind, options.labels, options.multi_label)
    texts: Iterable[TextExample] = text_examples(table, found, rules, log)
    if label:
        texts = list(texts)
        check_labels(texts, log, known=options.labels is not None)
    return _Found(texts, found, _in_words(table, found.names()))


def _is_plain(source: Source, asked: Columns, options: ReadOptions) -> bool:
    """Whether a file for prediction is one text, or one pair with a tab between, a line.

    The only column's name may begin it, if it was asked for or training's: of a word such as
    "title" one cannot tell, and no input is to be lost.
    """
    if options.require_labels or source.looks_like_json() or source.suffix == ".csv":
        return False
    if source.suffix == ".tsv":
        return False
    head = [line.split("\t") for line in source.head if line.strip()]
    named = [*asked.names(), *options.hint.names()]
    if len(head[0]) == 1:
        return plain(head[0][0]) not in map(plain, named)
    return not has_header(head, named)


def _read_lines(source: Source, options: ReadOptions, log: BadRowLog) -> _Found:
    pair = options.pair if options.pair is not None else options.hint.text2 is not None
    return _Found(
        text_lines(source, pair, log),
        Columns(),
        "plain text, a pair a line" if pair else "plain text, a line each",
    )


def _in_words(table: Table, names: Sequence[str]) -> str:
    if table.guessed:
        roles = (f"{role} in column {place}" for role, place in table.guessed.items())
        return f"{table.format}, {', '.join(roles)}"
    return f"{table.format} with the columns {', '.join(names)}"


def _read_span(
    path: Path, source: Source | None, asked: Columns, options: ReadOptions, log: BadRowLog
) -> _Found:
    judge = Answers(options.wrong_answers, log)
    label = options.require_labels
    if source is not None and source.looks_like_json():
        value = json_of(source)
        if squad.is_squad(value):
            found = list(squad.squad_examples(value, label=label, judge=judge, log=log))
            judge.warn()
            version = value.get("version")
            names = Columns("question", "context", "answers" if label else None)
            return _Found(found, names, f"SQuAD JSON{f', version {version}' if version else ''}")
        table = json_lines(source, log) if value is None else json_table(value, log)
    else:
        table = _open_table(path, source, asked, "span", options, log)
    columns = squad.span_columns(table, _with_hint(asked, options.hint, table.columns), label=label)
    examples: Iterable[Example] = squad.span_examples(table, columns, judge, log)
    if label:
        examples = list(examples)
        judge.warn()
    return _Found(examples, columns, _in_words(table, columns.names()))


def _has_words(source: Source) -> bool:
    """Whether the first line of a file with tabs names columns of words and of sentences."""
    first = next(line for line in source.head if line.strip())
    return "\t" in first and source.suffix != ".csv" and are_words(first.split("\t"))


def _has_texts(source: Source, asked: Columns, labels: Sequence[str] | None) -> bool:
    """Whether a file to be tagged is a table of texts; of words in columns it is none."""
    if source.suffix != ".tsv":
        return source.suffix == ".csv"
    first = next(line for line in source.head if line.strip()).split("\t")
    names = {plain(name) for name in (asked.text, *TEXTS[0]) if name is not None}
    return bool(names.intersection(map(plain, first))) and not conll.is_conll(source, labels)


def _read_tagging(
    path: Path, source: Source | None, asked: Columns, options: ReadOptions, log: BadRowLog
) -> _Found:
    label, in_columns = options.require_labels, False
    found, wanted = Columns(), options.tag_column
    examples: Iterable[TaggingExample]
    is_csv_file = source is not None and source.suffix == ".csv"
    words = source is not None and _has_words(source)
    texts = not label and source is not None and _has_texts(source, asked, options.labels)
    if source is None or source.looks_like_json() or texts or words or is_csv_file:
        table = _open_table(path, source, asked, "tagging", options, log)
        name = None if str(wanted).removeprefix("-").isdecimal() else wanted
        name = None if name is None else str(name)
        asked = Columns(**table.guessed) if table.guessed else asked
        asked = _with_hint(asked, options.hint, table.columns)
        if words or (is_csv_file and (label or are_words(table.columns))):
            found, sentences = word_columns(table, asked, wanted, label=label)
            examples = word_examples(table, found, sentences, log)
            format = _in_words(table, [*found.names(), sentences])
            in_columns = True
        else:
            found = tagging_columns(table, asked, name, label=label)
            examples = tagging_examples(table, found, log)
            format = _in_words(table, found.names())
    elif not label and not conll.is_conll(source, options.labels):
        examples = line_examples(source)
        format = "plain text, a sentence a line, cut into words"
    else:
        layout, place = conll.layout_of(source), None
        if label:
            place = conll.tag_place(source, layout, wanted, options.hint.label)
            found = Columns(label=None if wanted is None else str(wanted))
        examples = conll.conll_examples(source, layout, place, log)
        format = layout.in_words(place)
        in_columns = not (layout.a_line or layout.word or layout.comments)
    if not label:
        return _Found(examples, found, format)
    examples = list(examples)
    scheme = detect_scheme(each.tags or () for each in examples)
    given = "iob2" if scheme == "iob1" and options.iob1_as_iob2 else scheme
    if options.as_scheme is not None:
        given = options.as_scheme
        scheme = given if "none" in (given, scheme) else scheme
    examples = check_tags(examples, scheme, options.bad_tags, log, in_columns=in_columns)
    format = f"{format}; {scheme_title(scheme, labels_of(examples))}"
    if given != scheme or options.as_scheme == "iobes":  # which goes by several letters
        letters = letters_of(options.labels or ())
        examples = [replace(e, tags=mend(e.tags or (), given, letters)) for e in examples]
        format += "" if given == scheme else f", given as {given.upper()}"
    check_known_tags(examples, options.labels, log, in_columns=in_columns)
    return _Found(examples, found, format, scheme=given)
