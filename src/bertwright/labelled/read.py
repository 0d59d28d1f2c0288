"""Users' own labelled files, in whatever common form they come, to examples. All forms, columns and
options are listed in docs/tasks-formats.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path

from bertwright.errors import DataError
from bertwright.labelled.examples import (
    ChoiceExample,
    Example,
    GenerationExample,
    SpanExample,
    TextExample,
    classes_of,
)
from bertwright.labelled.file import File, Read, Reader, ReadOptions, Stream
from bertwright.labelled.source import BadRowLog, Rows, listed, name_of, shorten, texts_of_folder
from bertwright.labelled.tables.columns import Columns
from bertwright.labelled.tables.label_names import warn_of_spellings
from bertwright.labelled.tables.table import open_form


def read_examples(
    path: Path | str | Rows,
    reader: Reader,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    options: ReadOptions = ReadOptions(),  # noqa: B008
) -> Read:
    """Read one file of examples, also compressed, or rows in memory; `-` is standard input, of
    which all but Parquet is read too. The reader is that of the kind of task (`TaskKind.reader`),
    which says what the columns mean; `columns` are those that the user names.

    Raises:
        DataError: a missing, doubled or unused column; a bad row; names file and line.
        MissingExtra: the format needs a package that is not installed.
    """
    found = stream_examples(path, reader, columns, options)
    examples = list(found.examples)
    if not examples:
        summary = " ".join(found.log.summary())
        raise DataError(f"{found.log.name} has no example. {summary}".strip())
    warn_of_labels(examples, reader, found, options)
    if any(isinstance(each, SpanExample) and each.answers == () for each in examples):
        found.unanswerable = True
    return Read(**{**vars(found), "examples": examples})


def warn_of_labels(
    examples: Sequence[Example], reader: Reader, found: Stream, options: ReadOptions
) -> None:
    """Add warnings of labels that cannot be what is meant: the same for all examples, nearly as
    many as examples, or one under two names."""
    counts = Counter(name for each in examples for name in classes_of(each))
    labels = {_label_of(each) for each in examples}
    few = not found.classes and not options.labels and reader.classes
    alike = len(examples) > 1 and len(labels) == 1 and labels != {None}
    if alike or (len(counts) == 1 and counts.total() >= len(examples) > 1):
        label = next(iter(labels)) if alike else (*counts,)
        names = label if isinstance(label, tuple) else (label,)
        shown = f"the label{'s' * (len(names) > 1)} {listed(names)}" if names else "no class"
        found.log.warn(f"all have {shown}; there is nothing to tell apart")
    elif few and 2 * len(counts) > len(examples) > 2:
        found.log.warn(
            f"{len(counts):,} classes in {len(examples):,} examples; is --label the right column?"
        )
    for name in found.classes if len(examples) > 1 and len(labels) > 1 else ():
        if counts[name] in (0, len(examples)):
            none = "no example has" if not counts[name] else "all examples have"
            found.log.warn(f"{none} the class {shorten(name)}")
    if not options.labels:
        warn_of_spellings(counts, found.log)


def _label_of(example: Example) -> Hashable:
    """The label, to compare; None where examples of its kind may well have the same."""
    if isinstance(example, TextExample | ChoiceExample):
        return example.label
    return example.target if isinstance(example, GenerationExample) else None


def stream_examples(
    path: Path | str | Rows, reader: Reader, columns: Columns, options: ReadOptions
) -> Stream:
    """The same as a stream, which may be empty; a bad row is found when it is reached. JSON that is
    one value, as SQuAD's, and tags are held in memory whole, of others no more than is needed."""
    path = Path(path) if isinstance(path, str) else path
    if reader.classes and isinstance(path, Path) and path.is_dir():
        path = texts_of_folder(path, label=options.require_labels) or path
    if isinstance(path, Path) and path.is_dir():
        raise DataError(
            f"{path} is a folder; expected a file, or for classification {path}/CLASS/FILE.txt"
        )
    log = BadRowLog(name_of(path), options.bad_rows)
    if not options.require_labels:
        options = replace(options, hint=replace(options.hint, label=None, labels=()))
    named = [*columns.names(), *options.hint.names()]
    if reader.words:  # numbers are columns of words and tags, not of a table of texts
        named = [name for name in named if not name.isdecimal()]
    source, form = open_form(path, named, options.format)
    file = File(source, form, reader, columns, options, log)
    if not options.require_labels:
        file.refuse_unused(("text", "text2"), "without labels")
    return reader.read(file)
