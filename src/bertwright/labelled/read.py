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
from typing import Any

from bertwright.config.task import KINDS, Form, Kind, Scheme
from bertwright.errors import ConfigError, DataError
from bertwright.labelled import choices, squad, tagged_texts, tagged_words, texts
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
from bertwright.labelled.squad import WrongAnswers
from bertwright.labelled.table import FORMS, Table, has_columns, json_value, open_form, read_table
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
    scheme: Scheme = "none"
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
    found = _open(path if isinstance(path, Rows) else Path(path), kind, columns, options)
    examples, log = list(found.examples), found.log
    if not examples:
        raise DataError(f"{log.name} has no example. {' '.join(log.summary())}".strip())
    none = any(isinstance(each, SpanExample) and each.answers == () for each in examples)
    return Read(
        examples,
        found.columns,
        found.format,
        found.warnings(),
        log.skipped,
        found.scheme,
        none or found.unanswerable,
    )


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
    return _open(Path(path), kind, columns, replace(options, require_labels=False))


def _open(path: Path | Rows, kind: Kind, columns: Columns, options: ReadOptions) -> Stream:
    if kind not in KINDS:
        raise ConfigError(f"kind is {kind!r}; expected one of {', '.join(KINDS)}")
    if kind == "classification" and isinstance(path, Path) and path.is_dir():
        path = texts_of_folder(path, label=options.require_labels) or path
    log = BadRowLog(name_of(path), options.bad_rows)
    if not options.require_labels:
        options = replace(options, hint=replace(options.hint, label=None))
    source, form = open_form(path, [*columns.names(), *options.hint.names()], options.format)
    file = _File(source, form, kind, columns, options, log)
    if not options.require_labels:
        file.refuse_unused(("text", "text2"), "without labels")
    return READERS[kind](file)


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

    def is_plain(self) -> bool:
        """Whether to predict from the lines of plain text."""
        if self.options.require_labels or self.options.format == "text":
            return not self.options.require_labels
        bare = self.form in ("tsv", "text") and not self.chosen.names()
        return bare and not has_columns(self.source, self.options.hint)

    def refuse_unused(self, used: Sequence[str], form: str) -> None:
        """Raise DataError for a column that is named but not read."""
        for name in ("text", "text2", "label"):
            value = getattr(self.chosen, name)
            if value is not None and name not in used:
                raise DataError(
                    f"--{name} {value} names a column, but {self.log.name} is read {form}, where "
                    "nothing is read from it; leave the option out"
                )

    def stream(
        self, examples: Iterable[Example], columns: Columns, format: str, **found: Any
    ) -> Stream:
        """What is found."""
        return Stream(iter(examples), columns, format, self.log, self.source, **found)


def _read_texts(file: _File) -> Stream:
    """Classification and regression."""
    options, log, source = file.options, file.log, file.source
    label = options.require_labels
    if file.is_plain():
        pair = options.pair if options.pair is not None else options.hint.text2 is not None
        if options.format != "text" and not pair and "\t" in source.first:
            raise DataError(
                f"{source.name} has a tab in its first line, but no header, and the model was not "
                "trained on columns by number. Name the column: --text 1; or say that a line is a "
                "text: --format text"
            )
        file.refuse_unused((), "as plain text")
        format = "plain text, a pair a line" if pair else "plain text, a line each"
        return file.stream(texts.text_lines(source, pair, log), Columns(), format)
    table, chosen = file.table()
    if label and chosen.label is None:
        texts.check_classes(table.columns, options.hint, table.name)
    found = find_texts(table, chosen, file.kind, pair=options.pair, label=label)
    rules = texts.LabelRules(file.kind, options.labels, options.multi_label)
    examples = texts.text_examples(table, found, rules, log)
    if label:
        every = list(examples)
        texts.check_labels(every, log, known=options.labels is not None)
        examples = iter(every)
    return file.stream(examples, found, table.with_columns(found.names()))


def _read_targets(file: _File) -> Stream:
    if file.is_plain():
        file.refuse_unused((), "as plain text")
        lines = texts.text_lines(file.source, False, file.log)
        sources = (GenerationExample(each.text, line=each.line) for each in lines)
        return file.stream(sources, Columns(), "plain text, a source each line")
    table, chosen = file.table()
    target = None
    if file.options.require_labels:
        target = table.find(chosen.label, texts.TARGETS, "targets", "--label", [chosen.text])
    source = table.find(chosen.text, texts.SOURCES, "sources", "--text", [target])
    found = Columns(source, None, target)
    examples = texts.target_examples(table, found, file.log)
    return file.stream(examples, found, table.with_columns(found.names()))


def _read_choices(file: _File) -> Stream:
    table, chosen = file.table()
    found, several = choices.choice_columns(table, chosen, label=file.options.require_labels)
    examples = choices.choice_examples(table, found, several, file.log)
    return file.stream(examples, found, table.with_columns([*found.names(), *several]))


def _read_span(file: _File) -> Stream:
    log, unanswerable = file.log, False
    value = json_value(file.source) if file.form == "json" else None
    table = squad.squad_table(value, log)
    if table is not None:
        file.refuse_unused((), "as SQuAD JSON")
        chosen, format = file.chosen, table.format
        unanswerable = squad.has_impossible(value, log)
    else:
        table, chosen = file.table()
        format = ""
    columns = squad.span_columns(table, chosen, label=file.options.require_labels)
    examples = squad.span_examples(table, columns, file.options.wrong_answers, log)
    format = format or table.with_columns(columns.names())
    return file.stream(examples, columns, format, unanswerable=unanswerable)


def _read_tagging(file: _File) -> Stream:
    source, options, log = file.source, file.options, file.log
    label, in_columns = options.require_labels, False
    found = Columns()
    examples: Iterable[TaggingExample]
    form = _tagging_form(file)
    if form == "text":
        file.refuse_unused((), "as plain text")
        examples, format = tagged_texts.line_examples(source), "plain text, split into words"
    elif form in ("conll", "conllu"):
        file.refuse_unused(("label",), "as a word a line")
        layout, tag = tagged_words.layout_of(source, form == "conllu"), None
        if label:
            tag = tagged_words.tag_index(source, layout, file.chosen.label, options.hint.label)
            found = file.chosen
        examples = tagged_words.conll_examples(source, layout, tag, log)
        format, in_columns = layout.in_words(tag), not (layout.a_line or layout.numbered)
    else:
        file.refuse_unused(("text", "label"), "as sentences")
        table, chosen = file.table(form)
        names = []
        is_words = form in ("csv", "tsv") and tagged_words.are_words(table.columns)
        if is_words or (form == "csv" and label):
            found, sentences = tagged_words.word_columns(table, chosen, label=label)
            examples = tagged_words.word_examples(table, found, sentences, log)
            names, in_columns = [sentences], True
        else:
            found = tagged_texts.tagging_columns(table, chosen, label=label)
            examples = tagged_texts.tagging_examples(table, found, log)
        format = table.with_columns([*found.names(), *names])
    if not label:
        return file.stream(examples, found, format)
    tagged, scheme, title = with_scheme(
        list(examples),
        log,
        labels=options.labels,
        as_scheme=options.as_scheme,
        iob1_as_iob2=options.iob1_as_iob2,
        bad_tags=options.bad_tags,
        in_columns=in_columns,
    )
    return file.stream(tagged, found, f"{format}; {title}", scheme=scheme)


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


READERS: dict[Kind, Callable[[_File], Stream]] = {
    "classification": _read_texts,
    "regression": _read_texts,
    "multiple-choice": _read_choices,
    "generation": _read_targets,
    "span": _read_span,
    "tagging": _read_tagging,
}
"""The reader of each kind of task."""
