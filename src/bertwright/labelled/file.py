"""A labelled file that is about to be read: how, and what is found in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bertwright.config.task import Form, Scheme
from bertwright.errors import DataError
from bertwright.labelled.examples import Example
from bertwright.labelled.source import BadRowLog, BadRows, Source
from bertwright.labelled.tables.columns import Columns
from bertwright.labelled.tables.table import Table, plain_text, read_table


@dataclass
class Stream:
    """The examples of one file, to be gone through once, and how it is read."""

    examples: Iterable[Example]
    columns: Columns
    """The columns that were found; None for what the file or the task has not."""
    format: str
    """In words: `TSV with the columns text, label`."""
    log: BadRowLog
    """What was left out, complete when all is read."""
    source: Source
    scheme: Scheme = "none"
    """How the tags mark entities (tagging)."""
    classes: tuple[str, ...] = ()
    """All classes in their order, where the file has a 0 or 1 for each; else empty."""
    unanswerable: bool = False
    """Whether some questions have no answer (span); of a stream, whether SQuAD JSON says so."""

    @property
    def warnings(self) -> list[str]:
        """All warnings, complete when all is read."""
        return [*self.log.warnings, *self.source.warnings(), *self.log.summary()]


@dataclass
class Read(Stream):
    """The examples of one file, all in memory."""

    examples: Sequence[Example]


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read."""

    require_labels: bool = True
    """Without, plain text is read too."""
    format: Form | None = None
    """The form of the file; None: by its suffix or its header."""
    labels: Sequence[str] | None = None
    """The known ones; a row with another one is a bad row."""
    label_map: Mapping[str, str] = field(default_factory=dict)
    """Other names of labels: what each of them is read as."""
    multi_label: bool = False
    """A label is any number of classes: a list, or a text with commas."""
    hint: Columns = field(default_factory=Columns)
    """Columns of the training file, taken where no option names others; with two texts, pairs."""
    iob1_as_iob2: bool = False
    """Give tags in IOB1 as IOB2, the same entities."""
    as_scheme: Scheme | None = None
    """That of training, in which tags of another one are given, the same entities."""
    bad_rows: BadRows = "refuse"
    bad_tags: Literal["mend", "refuse"] = "mend"
    wrong_answers: Literal["skip", "refuse", "keep"] = "skip"
    """What becomes of answers that are not at their start; to evaluate, their texts count."""


@dataclass(frozen=True)
class Reader:
    """How the labelled files of a kind of task are read."""

    read: Callable[[File], Stream]
    """Reads the examples of a file."""
    classes: bool = False
    """Labels are classes: few beside the examples, and a folder may hold a folder for each."""
    numbers: bool = False
    """Labels are numbers."""
    words: bool = False
    """Sentences are read word by word: columns with a number for a name are those of words."""


@dataclass
class File:
    """A file that is about to be read."""

    source: Source
    form: Form
    reader: Reader
    chosen: Columns
    options: ReadOptions
    log: BadRowLog

    def table(self) -> Table:
        """The table that it is; what is not `chosen` is chosen as in training."""
        hint, bare = self.options.hint, self.form == "text"
        if bare and not self.options.require_labels:
            tabs = self.options.format is not None or self.reader.words
            table = plain_text(self.source, hint.text2 is not None, tabs, self.log)
        else:
            names = [*self.chosen.names(), *hint.names()]
            table = read_table(self.source, "tsv" if bare else self.form, names, self.log)
        self.chosen = self.chosen.or_of(hint, table.columns)
        return table

    def label(self, table: Table, what: str, used: Sequence[str | None] = ()) -> str | None:
        """The column of labels; None where they are not read."""
        if not self.options.require_labels:
            return None
        return table.find(self.chosen.label, what, "--label", used)

    def refuse_unused(self, used: Sequence[str], form: str) -> None:
        """Raise DataError for a column that is named but not read."""
        for name in ("text", "text2", "label", "labels"):
            value = getattr(self.chosen, name)
            if name == "labels":
                name, value = "label", " ".join(value) or None
            if value is not None and name not in used:
                what = f"--{name} {value} names a column, but {self.log.name} is read {form}"
                raise DataError(f"{what}; leave the option out")

    def found(
        self, examples: Iterable[Example], columns: Columns, form: Table | str, *more: str
    ) -> Stream:
        """The examples, read of a form in words, or of these columns of a table and `more`."""
        if isinstance(form, Table):
            form = f"{form.format} with the columns {', '.join([*columns.names(), *more])}"
        return Stream(examples, columns, form, self.log, self.source)
