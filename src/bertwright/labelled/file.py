"""The options for reading a labelled file, the opened file, and the examples read from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bertwright.config.task import Form, Scheme
from bertwright.errors import DataError, shorten
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import Example
from bertwright.rows.bad_rows import BadRowLog, BadRows, BadValue
from bertwright.rows.columns import Table
from bertwright.rows.lines import ByteCounts
from bertwright.rows.parts import PARTS, find_folds, find_parts, part_of
from bertwright.rows.read import RowFile, plain_text, read_table

E = TypeVar("E")
Row = dict[Any, Any]
"""The values of a row by column name; None for a value that the row lacks."""


@dataclass(frozen=True)
class Stream:
    """The examples of one file, to be iterated once, and how the file is read."""

    examples: Iterable[Example]
    columns: Columns
    """The columns that are read; None for what the file or the task does not have."""
    format: str
    """A description of the format, such as `TSV with the columns text, label`."""
    log: BadRowLog
    """The rows that were left out; complete when all examples are read."""
    counts: ByteCounts
    """What the bytes of the file were; complete when all examples are read."""
    scheme: Scheme = "none"
    """The tagging scheme, which says how tags mark entities (tagging only)."""
    classes: tuple[str, ...] = ()
    """All classes in their order if the file has a 0 or 1 for each of them; otherwise empty."""
    unanswerable: bool = False
    """Whether some questions have no answer (span only). While the examples are not read yet, this
    is known only for SQuAD JSON, which marks such questions.
    """
    parts: Mapping[int, str] = field(default_factory=dict)
    """The part of the data set (train, dev or test) of the example at each line, if a column of the
    file says so; complete when all examples are read.
    """
    split: str | None = None
    """The column that says so."""

    @property
    def warnings(self) -> list[str]:
        """All warnings; complete when all examples are read."""
        of_bytes = [f"{self.log.name}: {remark}" for remark in self.counts.byte_remarks()]
        return [*self.log.warnings, *of_bytes, *self.log.summary()]


@dataclass(frozen=True)
class Read(Stream):
    """The examples of one file, all in memory."""

    examples: Sequence[Example]

    def of_part(self, *parts: str) -> list[Example]:
        """Return the examples of the first of these parts that the file has, with a warning of the
        others; all examples if the file has only one part, or none of these.
        """
        of_each = [self.parts.get(each.line, "") for each in self.examples]
        counts = Counter(of_each)
        part = next((each for each in parts if counts[each]), None)
        if part is None or len(counts) == 1:
            return list(self.examples)
        shown = ", ".join(f"{counts[each]:,} for {each}" for each in PARTS if counts[each])
        self.log.warn(f"rows by the column {self.split}: {shown}; taken are those for {part}")
        return [each for each, own in zip(self.examples, of_each, strict=True) if own == part]


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read."""

    require_labels: bool = True
    """Whether labels are read. If they are not, a file of plain text is accepted too."""
    format: Form | None = None
    """The format of the file; None detects it from the suffix or the header."""
    labels: Sequence[str] | None = None
    """The known labels; a row with any other label is a bad row. None accepts every label."""
    label_map: Mapping[str, str] = field(default_factory=dict)
    """Renames labels while reading: from the name in the file to the name used."""
    multi_label: bool = False
    """Whether a label is any number of classes: a list, or a text separated by commas."""
    hint: Columns = field(default_factory=Columns)
    """The columns of the training file. They are used where no option names a column. If they have
    two texts, the examples are pairs.
    """
    iob1_as_iob2: bool = False
    """Whether IOB1 tags are converted to IOB2. The entities stay the same."""
    as_scheme: Scheme | None = None
    """The tagging scheme of training. Tags in another scheme are converted to it; the entities stay
    the same.
    """
    bad_rows: BadRows = "refuse"
    """Whether a row that cannot be read is an error or is skipped and counted."""
    keep_wrong_answers: bool = False
    """Whether answers that are not found at their start offset are kept. Evaluation keeps them,
    because only their texts are compared.
    """


@dataclass(frozen=True)
class Reader:
    """How the labelled files of a kind of task are read."""

    read: Callable[[File], Stream]
    """Returns the examples of a file."""
    classes: bool = False
    """Whether labels are classes. Then there are few of them, and a folder may hold one folder of
    texts for each class.
    """
    numbers: bool = False
    """Whether labels are numbers."""
    words: bool = False
    """Whether sentences are read word by word. Then a column given by number is a column of
    words.
    """


@dataclass(frozen=True)
class File:
    """An opened file, and how it is to be read."""

    rows: RowFile
    reader: Reader
    chosen: Columns
    """The columns that options name."""
    options: ReadOptions
    log: BadRowLog

    def table(self, form: Form | None = None) -> LabelledTable:
        """Return the rows of the file as a table; `form` replaces the format that was detected."""
        rows = self.rows if form is None else replace(self.rows, form=form)
        hint, is_plain_text = self.options.hint, rows.form == "text"
        if is_plain_text and not self.options.require_labels:
            tabs = self.options.format is not None or self.reader.words
            return self.table_of(plain_text(rows.lines, hint.text2 is not None, tabs, self.log))
        named = [*self.chosen.names(), *hint.names()]
        return self.table_of(read_table(rows, named, self.log, kept=True))

    def table_of(self, table: Table) -> LabelledTable:
        """Return a table as one of labelled rows, with the columns of the training file where no
        option names one.
        """
        chosen, split = self.chosen.or_of(self.options.hint, table.columns), None
        if self.options.require_labels:
            rows = table.sample()
            split = find_parts(table.columns, rows)
            if (fold := find_folds(table.columns, rows)) and fold not in chosen.names():
                self.log.warn(
                    f"the column {shorten(fold)} has numbers of folds, which are not read: the "
                    "rows of all folds are read alike. To hold out a fold, write it to a file of "
                    "its own: --dev FILE"
                )
        return LabelledTable(**vars(table), file=self, chosen=chosen, split=split)

    def refuse_unused(self, used: Sequence[str], form: str) -> None:
        """Raise DataError if an option names a column that this format does not use."""
        for name in ("text", "text2", "label", "labels"):
            value = getattr(self.chosen, name)
            if name == "labels":
                name, value = "label", " ".join(value) or None
            if value is not None and name not in used:
                what = f"--{name} {value} names a column, but {self.log.name} is read {form}"
                raise DataError(f"{what}, which does not use it; leave the option out")

    def stream(self, examples: Iterable[Example], columns: Columns, format: str) -> Stream:
        """Return the stream of `examples`."""
        return Stream(examples, columns, format, self.log, self.rows.counts)


@dataclass(frozen=True, kw_only=True)
class LabelledTable(Table):
    """A table of labelled rows."""

    file: File
    chosen: Columns
    """The columns that options name, completed with those of the training file."""
    split: str | None = None
    """The column that says which rows are for training, and which for evaluation."""
    parts: dict[int, str] = field(default_factory=dict)
    """The part of the data set (train, dev or test) of the row at each line; empty without
    `split`.
    """

    @property
    def options(self) -> ReadOptions:
        """How the file is read."""
        return self.file.options

    def error(self, what: str, option: str) -> DataError:
        """Return the error for a table that has `what`, with the options that name its columns."""
        if self.shown and self.chosen == Columns():
            option = "--text COLUMN --label"
        return super().error(what, option)

    def label(self, what: str, used: Sequence[str | None] = ()) -> str | None:
        """Return the column of labels, or None if labels are not read."""
        if not self.options.require_labels:
            return None
        return self.find(self.chosen.label, what, "--label", used)

    def stream(
        self,
        examples: Iterable[Example],
        columns: Columns,
        *more: str,
        beside: Sequence[str | None] = (),
    ) -> Stream:
        """Return the stream of `examples`, for which `columns` and `more` are read, and `beside`
        them those that say where a row belongs.
        """
        read = [*columns.names(), *more]
        format = f"{self.format} with the columns {', '.join(read)}"
        used = {*read, *beside, self.id(read), self.split}
        if unread := [name for name in self.columns if name and name not in used]:
            format += f"; not read: {', '.join(unread[:20])}"
            format += f" and {len(unread) - 20} more" if len(unread) > 20 else ""
        stream = self.file.stream(examples, columns, format)
        return replace(stream, parts=self.parts, split=self.split)

    def examples(
        self, columns: Sequence[str | None], make: Callable[[Row, str, int], E | None]
    ) -> Iterator[E]:
        """Return an iterator of what `make` returns for each row, without rows for which it is
        None.

        `make` is given the values of `columns`, the row's id ("" if it has none) and its line. A
        row for which it raises `BadValue` is a bad row, unless all of `columns` are empty there and
        the log skips such rows.
        """
        names = [name for name in columns if name is not None]
        id_ = self.id(names)
        names += [id_] if id_ else []
        split = None if self.split in names else self.split
        rows = self.rows([*names, split] if split else names)
        for line, values in rows:
            part = "" if split is None else part_of(values.pop())
            row: Row = dict(zip(names, values, strict=True))
            identifier = row.get(id_)
            try:
                if part is None:
                    expected = "train, dev or test"
                    raise BadValue(f"unknown value in the column {split}", "", expected)
                example = make(row, "" if identifier is None else str(identifier), line)
            except BadValue as error:
                read = (value for name, value in row.items() if name != id_)
                is_empty = not any(str(value or "").strip() for value in read)
                if is_empty and self.log.skips_empty:
                    self.log.skipped.add(line, "empty row")
                else:
                    self.log.bad(line, *error.args)
                continue
            if example is not None:
                if part:
                    self.parts[line] = part
                yield example


def read_text(row: Row, column: str | None) -> str:
    """Return a text of a row; raise BadValue if it is empty, missing or not a text."""
    value = row[column]
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        value = str(value)
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        raise BadValue("empty text", f"column {shorten(column)}", "a text")
    if not isinstance(value, str):
        came = f"a {type(value).__name__} in the column {shorten(column)}"
        raise BadValue("text of a wrong type", came, "a string")
    return value


def other_kind(name: str, what: str, kind: str) -> DataError:
    """Return the error for a file that is for classification, and not for this kind of task."""
    error = DataError(f"{name} has {what}; this looks like classification, not {kind}")
    error.retry = (kind, "classification")
    return error
