"""The options for reading a labelled file, the opened file, and the examples read from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bertwright.config.task import Form, Scheme
from bertwright.errors import DataError, shorten
from bertwright.labelled.examples import Example
from bertwright.labelled.source import BadRowLog, BadRows, Source
from bertwright.labelled.tables.columns import Columns
from bertwright.labelled.tables.parts import PARTS, find_folds, find_parts
from bertwright.labelled.tables.table import Table, plain_text, read_table


@dataclass
class Stream:
    """The examples of one file, to be iterated once, and how the file is read."""

    examples: Iterable[Example]
    columns: Columns
    """The columns that are read; None for what the file or the task does not have."""
    format: str
    """A description of the format, such as `TSV with the columns text, label`."""
    log: BadRowLog
    """The rows that were left out; complete when all examples are read."""
    source: Source
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
    split: str = ""
    """The column that says so."""

    @property
    def warnings(self) -> list[str]:
        """All warnings; complete when all examples are read."""
        return [*self.log.warnings, *self.source.warnings(), *self.log.summary()]


@dataclass
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
    bad_tags: Literal["mend", "refuse"] = "mend"
    """Whether tags that break their scheme are corrected and counted, or are an error."""
    wrong_answers: Literal["skip", "refuse", "keep"] = "skip"
    """What happens to answers that are not found at their start offset. Evaluation keeps them,
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


@dataclass
class File:
    """An opened file, ready to be read."""

    source: Source
    form: Form
    reader: Reader
    chosen: Columns
    options: ReadOptions
    log: BadRowLog

    def table(self) -> Table:
        """Read the file as a table, and complete `chosen` with the columns of the training file."""
        hint, is_plain_text = self.options.hint, self.form == "text"
        if is_plain_text and not self.options.require_labels:
            tabs = self.options.format is not None or self.reader.words
            table = plain_text(self.source, hint.text2 is not None, tabs, self.log)
        else:
            names = [*self.chosen.names(), *hint.names()]
            table = read_table(self.source, "tsv" if is_plain_text else self.form, names, self.log)
        self.chosen = self.chosen.or_of(hint, table.columns)
        if self.options.require_labels:
            rows = table.sample()
            table.split = find_parts(table.columns, rows)
            if (fold := find_folds(table.columns, rows)) and fold not in self.chosen.names():
                self.log.warn(
                    f"the column {shorten(fold)} has numbers of folds, which are not read: the "
                    "rows of all folds are read alike. To hold out a fold, write it to a file of "
                    "its own: --dev FILE"
                )
        return table

    def label(self, table: Table, what: str, used: Sequence[str | None] = ()) -> str | None:
        """Return the column of labels, or None if labels are not read."""
        if not self.options.require_labels:
            return None
        return table.find(self.chosen.label, what, "--label", used)

    def refuse_unused(self, used: Sequence[str], form: str) -> None:
        """Raise DataError if an option names a column that this format does not use."""
        for name in ("text", "text2", "label", "labels"):
            value = getattr(self.chosen, name)
            if name == "labels":
                name, value = "label", " ".join(value) or None
            if value is not None and name not in used:
                what = f"--{name} {value} names a column, but {self.log.name} is read {form}"
                raise DataError(f"{what}, which does not use it; leave the option out")

    def stream(
        self, examples: Iterable[Example], columns: Columns, form: Table | str, *more: str
    ) -> Stream:
        """Return the stream of `examples`. `form` describes the format, or is the table whose
        `columns`, and `more` columns, were read.
        """
        if not isinstance(form, Table):
            return Stream(examples, columns, form, self.log, self.source)
        read = ", ".join([*columns.names(), *more])
        title = f"{form.format} with the columns {read}"
        if form.unread:
            title += f"; not read: {', '.join(map(str, form.unread[:20]))}"
            title += f" and {len(form.unread) - 20} more" if len(form.unread) > 20 else ""
        stream = Stream(examples, columns, title, self.log, self.source)
        stream.parts, stream.split = form.parts, form.split or ""
        return stream
