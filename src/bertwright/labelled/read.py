"""Read users' labelled files, in any common format, into examples.

docs/reference/labelled-files.md lists all formats, columns and options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path

from bertwright.errors import DataError, listed, shorten
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import (
    ChoiceExample,
    Example,
    GenerationExample,
    SpanExample,
    TextExample,
    classes_of,
)
from bertwright.labelled.file import File, Read, Reader, ReadOptions, Stream
from bertwright.labelled.folders import texts_of_folder
from bertwright.labelled.label_names import warn_of_spellings
from bertwright.labelled.unlabelled import without_unlabelled
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.open import name_of
from bertwright.rows.read import MemoryRows, open_rows


def read_examples(
    path: Path | str | MemoryRows,
    reader: Reader,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    options: ReadOptions = ReadOptions(),  # noqa: B008
) -> Read:
    """Read all examples of one file, which may be compressed, or of rows in memory.

    `-` reads standard input, except for Parquet. `reader` belongs to the kind of task
    (`Kind.reader`) and says what the columns mean; `columns` are those that the user names.

    Raises:
        DataError: a column is missing, doubled or unused, or a row is bad; the message names the
            file and the line.
    """
    stream = stream_examples(path, reader, columns, options)
    examples = list(stream.examples)
    if options.require_labels and not reader.numbers:
        examples = without_unlabelled(examples, stream.log, options.labels)
    if not examples:
        summary = " ".join(stream.log.summary())
        raise DataError(f"{stream.log.name} has no example. {summary}".strip())
    warn_of_labels(examples, reader, stream, options)
    unanswered = any(isinstance(each, SpanExample) and each.answers == () for each in examples)
    known = {
        **vars(stream),
        "examples": examples,
        "unanswerable": stream.unanswerable or unanswered,
    }
    return Read(**known)


def warn_of_labels(
    examples: Sequence[Example], reader: Reader, stream: Stream, options: ReadOptions
) -> None:
    """Add warnings of labels that are probably a mistake: the same label for all examples, nearly
    as many labels as examples, or two spellings of one label.
    """
    counts = Counter(name for each in examples for name in classes_of(each))
    labels = {_label_of(each) for each in examples}
    few = not stream.classes and not options.labels and reader.classes
    alike = len(examples) > 1 and len(labels) == 1 and labels != {None}
    if alike or (len(counts) == 1 and counts.total() >= len(examples) > 1):
        label = next(iter(labels)) if alike else (*counts,)
        names = label if isinstance(label, tuple) else (label,)
        shown = f"the label{'s' * (len(names) > 1)} {listed(names)}" if names else "no class"
        stream.log.warn(f"all have {shown}; there is nothing to tell apart")
    elif few and 2 * len(counts) > len(examples) > 2:
        stream.log.warn(
            f"{len(counts):,} classes in {len(examples):,} examples; is --label the right column?"
        )
    for name in stream.classes if len(examples) > 1 and len(labels) > 1 else ():
        if counts[name] in (0, len(examples)):
            none = "no example has" if not counts[name] else "all examples have"
            stream.log.warn(f"{none} the class {shorten(name)}")
    if not options.labels:
        warn_of_spellings(counts, stream.log)


def _label_of(example: Example) -> Hashable:
    """Return the label for comparison; None if examples of this kind may well share a label."""
    if isinstance(example, TextExample | ChoiceExample):
        return example.label
    return example.target if isinstance(example, GenerationExample) else None


def stream_examples(
    path: Path | str | MemoryRows, reader: Reader, columns: Columns, options: ReadOptions
) -> Stream:
    """Return the examples of a file as a stream, which may be empty.

    A bad row is reported when it is reached. JSON that is a single value (SQuAD's) and tagged files
    are held in memory whole; other formats are read as needed.
    """
    path = Path(path) if isinstance(path, str) else path
    if reader.classes and isinstance(path, Path) and path.is_dir():
        path = texts_of_folder(path, label=options.require_labels) or path
    if isinstance(path, Path) and path.is_dir():
        raise DataError(
            f"{path} is a folder; expected a file, or for classification {path}/CLASS/FILE.txt"
        )
    name = path.name if isinstance(path, MemoryRows) else name_of(path)
    log = BadRowLog(name, options.bad_rows, skips_empty=not options.require_labels)
    for warning in path.warnings if isinstance(path, MemoryRows) else ():
        log.warn(warning)
    if not options.require_labels:
        options = replace(options, hint=replace(options.hint, label=None, labels=()))
    named = [*columns.names(), *options.hint.names()]
    if reader.words:  # numbers are columns of words and tags, not of a table of texts
        named = [name for name in named if not name.isdecimal()]
    file = File(open_rows(path, named, options.format), reader, columns, options, log)
    if not options.require_labels:
        file.refuse_unused(("text", "text2"), "without labels")
    return reader.read(file)
