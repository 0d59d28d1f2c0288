"""Users' own labelled files, in whatever common form they come, to examples.

Which form a file has is what `--format` names, else its suffix, else its header (`table.FORMS`);
`READERS` says which kinds of task read which forms, and where. A row that cannot be read stops the
reading with its line, or is left out and counted. All forms, columns and options are listed in
docs/tasks-formats.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from bertwright.config.task import KINDS, Form, Kind, Scheme
from bertwright.errors import ConfigError, DataError
from bertwright.labelled import choices, squad, tagged_texts, tagged_words, targets, texts
from bertwright.labelled.columns import Columns, find_texts, plain, with_hint
from bertwright.labelled.examples import Example, GenerationExample, SpanExample, TaggingExample
from bertwright.labelled.source import (
    BadRowLog,
    BadRows,
    Rows,
    Skipped,
    Source,
    name_of,
    replaced_bytes,
    suffix_of,
    texts_of_folder,
)
from bertwright.labelled.squad import Answers, WrongAnswers
from bertwright.labelled.table import (
    FORMS,
    Table,
    has_columns,
    json_value,
    open_form,
    read_table,
)
from bertwright.labelled.tags import BadTags, with_scheme


@dataclass
class Read:
    """The examples of one file, and how it was read."""

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
    unanswerable: bool = False
    """Whether some questions have no answer (span)."""


@dataclass
class Stream:
    """The examples of one file of any size, read as they are needed; to be gone through once."""

    examples: Iterator[Example]
    columns: Columns
    format: str
    log: BadRowLog
    """What was left out, complete when all is read."""
    source: Source
    unanswerable: bool = False
    """Whether SQuAD JSON says so of some questions."""

    def warnings(self) -> list[str]:
        """All warnings, complete when all is read."""
        return [*self.log.warnings, *replaced_bytes(self.source), *self.log.summary()]


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read."""

    require_labels: bool = True
    """Without, labels are not read, and plain text is taken a line an example."""
    format: Form | None = None
    """The form of the file; None: by its suffix or its header."""
    labels: Sequence[str] | None = None
    """The known ones; another one is an error."""
    multi_label: bool = False
    """A label is any number of classes: a list, or a text with commas."""
    pair: bool | None = None
    """Whether there are two texts; None: as the file has."""
    hint: Columns = field(default_factory=Columns)
    """Columns of the training file, taken where they are there and no option names others."""
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


class _Found(NamedTuple):
    """What a form of file gives: its examples, to be gone through once."""

    examples: Iterable[Example]
    columns: Columns
    format: str
    scheme: Scheme = "none"
    unanswerable: bool = False


def read_examples(
    path: Path | str | Rows,
    kind: Kind,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    options: ReadOptions = ReadOptions(),
) -> Read:
    """Read one file of examples; `-` is standard input.

    Args:
        path: TSV, CSV, JSON lines, JSON, Parquet, CoNLL columns, SQuAD JSON or plain text; all but
            Parquet from standard input too, and all in .gz, .xz, .bz2 and .zst; or rows in memory.
        kind: of the task; says what the columns mean.
        columns: those that the user names; the label of tagging may be a number from 1 (-1 the
            last).
        options: all else.

    Raises:
        DataError: a missing or doubled column, a column that the form has no use for, an unknown
            label, a bad row; names file and line.
        MissingExtra: the format needs a package that is not installed.
    """
    path = path if isinstance(path, Rows) else Path(path)
    found, log, source = _open(path, kind, columns, options)
    examples = list(found.examples)
    if not examples:
        raise DataError(f"{log.name} has no example. {' '.join(log.summary())}".strip())
    warnings = [*log.warnings, *replaced_bytes(source), *log.summary()]
    none = found.unanswerable or any(
        isinstance(e, SpanExample) and e.answers == () for e in examples
    )
    return Read(examples, found.columns, found.format, warnings, log.skipped, found.scheme, none)


def stream_examples(
    path: Path | str,
    kind: Kind,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    options: ReadOptions = ReadOptions(),
) -> Stream:
    """Read one file without labels, of any size; `-` is standard input.

    JSON that is one value, as SQuAD's, and Parquet (as it is compressed) are held in memory whole;
    of all others no more than what is needed. The arguments are those of `read_examples`; its
    errors come here, or when the bad row is reached. A file without examples is no error.
    """
    unlabelled = replace(options, require_labels=False)
    found, log, source = _open(Path(path), kind, columns, unlabelled)
    examples = iter(found.examples)
    return Stream(examples, found.columns, found.format, log, source, found.unanswerable)


def _open(
    path: Path | Rows, kind: Kind, columns: Columns, options: ReadOptions
) -> tuple[_Found, BadRowLog, Source]:
    if kind not in KINDS:
        raise ConfigError(f"kind is {kind!r}; expected one of {', '.join(KINDS)}")
    if kind == "classification" and isinstance(path, Path) and path.is_dir():
        path = texts_of_folder(path, label=options.require_labels) or path
    log = BadRowLog(name_of(path), options.bad_rows)
    if not options.require_labels:
        _all_used(columns, ("text", "text2"), "without labels", log)
        options = replace(options, hint=replace(options.hint, label=None))
    named = [*columns.names(), *options.hint.names()]
    source, form = open_form(path, named, options.format)
    return READERS[kind](_File(source, form, kind, columns, options, log)), log, source


@dataclass
class _File:
    """A file that is about to be read."""

    source: Source
    form: Form
    kind: Kind
    chosen: Columns
    options: ReadOptions
    log: BadRowLog

    def table(self, form: Form | None = None) -> tuple[Table, Columns]:
        """The table that it is, and the columns chosen or those of training."""
        form, hint = form or self.form, self.options.hint
        if form == "text":
            if "\t" not in self.source.first and self.options.require_labels:
                raise DataError(
                    f"{self.source.name} has no columns; expected TSV, CSV (with a header, "
                    "or named .csv), JSON lines, JSON or Parquet"
                )
            form = "tsv"
        table = read_table(self.source, form, self.chosen, hint, self.log)
        return table, with_hint(self.chosen, hint, table.columns)


def _all_used(chosen: Columns, used: Sequence[str], form: str, log: BadRowLog) -> None:
    """Raise DataError for a column that is named but not read."""
    for name in ("text", "text2", "label"):
        value = getattr(chosen, name)
        if value is not None and name not in used:
            raise DataError(
                f"--{name} {value} names a column, but {log.name} is read {form}, where nothing is "
                "read from it; leave the option out"
            )


def _with_columns(table: Table, names: Sequence[str]) -> str:
    return f"{table.format} with the columns {', '.join(names)}"


def _read_texts(file: _File) -> _Found:
    """Classification and regression."""
    options, log, source = file.options, file.log, file.source
    label = options.require_labels
    pair = options.pair if options.pair is not None else options.hint.text2 is not None
    bare = file.form in ("tsv", "text") and not file.chosen.names()
    plain_text = options.format == "text" or (bare and not has_columns(source, options.hint))
    if plain_text and not label:
        if options.format != "text" and not pair and "\t" in source.first:
            raise DataError(
                f"{source.name} has a tab in its first line, but no header, and the model was not "
                "trained on columns by number. Name the column: --text 1; or say that a line is a "
                "text: --format text"
            )
        format = "plain text, a pair a line" if pair else "plain text, a line each"
        _all_used(file.chosen, (), "as plain text", log)
        return _Found(texts.text_lines(source, pair, log), Columns(), format)
    table, chosen = file.table()
    if label and chosen.label is None:
        texts.check_classes(table.columns, options.hint, table.name)
    found = find_texts(table.columns, chosen, file.kind, table.name, pair=options.pair, label=label)
    rules = texts.LabelRules(file.kind, options.labels, options.multi_label)
    examples = texts.text_examples(table, found, rules, log)
    format = _with_columns(table, found.names())
    if not label:
        return _Found(examples, found, format)
    every = list(examples)
    texts.check_labels(every, log, known=options.labels is not None)
    return _Found(every, found, format)


def _read_choices(file: _File) -> _Found:
    table, chosen = file.table()
    label = file.options.require_labels
    found, several = choices.choice_columns(table, chosen, label=label)
    examples = choices.choice_examples(table, found, several, file.log)
    return _Found(examples, found, _with_columns(table, [*found.names(), *several]))


def _read_targets(file: _File) -> _Found:
    options, source = file.options, file.source
    label = options.require_labels
    bare = file.form in ("tsv", "text") and not file.chosen.names()
    plain_text = options.format == "text" or (bare and not has_columns(source, options.hint))
    if plain_text and not label:
        _all_used(file.chosen, (), "as plain text", file.log)
        lines = texts.text_lines(source, False, file.log)
        sources = (GenerationExample(each.text, line=each.line) for each in lines)
        return _Found(sources, Columns(), "plain text, a source each line")
    table, chosen = file.table()
    found = targets.target_columns(table, chosen, label=label)
    examples = targets.target_examples(table, found, file.log)
    return _Found(examples, found, _with_columns(table, found.names()))


def _read_span(file: _File) -> _Found:
    log, label, unanswerable = file.log, file.options.require_labels, False
    answers = Answers(file.options.wrong_answers, log)
    value = json_value(file.source) if file.form == "json" else None
    examples: Iterable[Example]
    if squad.is_squad(value):
        _all_used(file.chosen, (), "as SQuAD JSON", log)
        examples = squad.squad_examples(value, label=label, checked=answers, log=log)
        columns = Columns("question", "context", "answers" if label else None)
        unanswerable = squad.has_impossible(value, log)
        version = file.source.json.get("version")
        format = f"SQuAD JSON{f', version {version}' if version else ''}"
    else:
        table, chosen = file.table()
        columns = squad.span_columns(table, chosen, label=label)
        examples = squad.span_examples(table, columns, answers, log)
        format = _with_columns(table, columns.names())
    if label:
        examples = list(examples)
        answers.warn()
    return _Found(examples, columns, format, unanswerable=unanswerable)


def _read_tagging(file: _File) -> _Found:
    source, options, log = file.source, file.options, file.log
    label, in_columns = options.require_labels, False
    found = Columns()
    examples: Iterable[TaggingExample]
    form = _tagging_form(file)
    if form == "text":
        _all_used(file.chosen, (), "as plain text", log)
        examples, format = tagged_texts.line_examples(source), "plain text, split into words"
    elif form in ("conll", "conllu"):
        _all_used(file.chosen, ("label",), "as a word a line", log)
        layout, tag = tagged_words.layout_of(source, form == "conllu"), None
        if label:
            tag = tagged_words.tag_index(source, layout, file.chosen.label, options.hint.label)
            found = file.chosen
        examples = tagged_words.conll_examples(source, layout, tag, log)
        format = layout.in_words(tag)
        in_columns = not (layout.a_line or layout.word or layout.comments)
    else:
        _all_used(file.chosen, ("text", "label"), "as sentences", log)
        table, chosen = file.table(form)
        is_words = form in ("csv", "tsv") and tagged_words.are_words(table.columns)
        if is_words or (form == "csv" and label):
            found, sentences = tagged_words.word_columns(table, chosen, label=label)
            examples = tagged_words.word_examples(table, found, sentences, log)
            format, in_columns = _with_columns(table, [*found.names(), sentences]), True
        else:
            found = tagged_texts.tagging_columns(table, chosen, label=label)
            examples = tagged_texts.tagging_examples(table, found, log)
            format = _with_columns(table, found.names())
    if not label:
        return _Found(examples, found, format)
    tagged, scheme, title = with_scheme(
        list(examples),
        log,
        labels=options.labels,
        as_scheme=options.as_scheme,
        iob1_as_iob2=options.iob1_as_iob2,
        bad_tags=options.bad_tags,
        in_columns=in_columns,
    )
    return _Found(tagged, found, f"{format}; {title}", scheme)


def _tagging_form(file: _File) -> Form:
    """The form of a file to be tagged: TSV is a table only if its header names words and sentences
    or, without labels, texts; else a word a line."""
    source, options = file.source, file.options
    if file.form not in ("tsv", "text"):
        return file.form
    named = options.format or FORMS.get(suffix_of(source.path))
    header = source.first.split("\t")
    if file.form == "tsv" and tagged_words.are_words(header):
        return "tsv"
    if options.require_labels or tagged_words.is_conll(source, options.labels):
        return "text" if named == "text" else "conll"
    names = {plain(name) for name in (file.chosen.text, *tagged_texts.TEXTS[0]) if name is not None}
    if file.form == "tsv" and names.intersection(map(plain, header)):
        return "tsv"
    return "conll" if named == "tsv" else "text"


READERS: dict[Kind, Callable[[_File], _Found]] = {
    "classification": _read_texts,
    "regression": _read_texts,
    "multiple-choice": _read_choices,
    "generation": _read_targets,
    "span": _read_span,
    "tagging": _read_tagging,
}
"""The reader of each kind of task."""
