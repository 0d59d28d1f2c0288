"""Generation: rows with a source and the target that is to be written from it.

| files | source | target |
|---|---|---|
| ours | source | target |
| E2E | mr (meaning_representation) | ref (human_reference) |
| XSum, CNN/Daily Mail, SAMSum | document, article, dialogue | summary, highlights |

A source with several targets is several rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from bertwright.labelled.columns import Columns, Groups, find, find_id
from bertwright.labelled.examples import GenerationExample
from bertwright.labelled.source import BadRowLog, BadValue
from bertwright.labelled.table import Table
from bertwright.labelled.texts import read_name, read_text

SOURCES: Groups = (
    ("source",),
    ("mr", "meaning_representation", "document", "article", "dialogue", "input", "text"),
)
TARGETS: Groups = (
    ("target",),
    ("ref", "human_reference", "summary", "highlights", "output", "headline", "question"),
)


def target_columns(table: Table, chosen: Columns, *, label: bool) -> Columns:
    """The columns of sources and, if there must be, of targets.

    Raises:
        DataError: one is missing or ambiguous; lists those there.
    """
    there, name = table.columns, table.name
    target = None
    if label:
        target = find(chosen.label, TARGETS, "targets", "--label", there, name, [chosen.text])
    source = find(chosen.text, SOURCES, "sources", "--text", there, name, [target])
    return Columns(source, None, target)


def target_examples(table: Table, columns: Columns, log: BadRowLog) -> Iterator[GenerationExample]:
    """The examples of a table; a bad row goes to `log`."""
    used = columns.names()
    identifier = find_id(table.columns, used)
    names = [*used, *([identifier] if identifier else [])]
    for line, values in table.rows(names):
        row = dict(zip(names, values, strict=True))
        try:
            source = read_text(row[columns.text or ""], columns.text or "", log)
            target = None
            if columns.label is not None:
                target = read_text(row[columns.label], columns.label, log)
        except BadValue as error:
            log.bad(line, error.reason, str(error))
            continue
        yield GenerationExample(
            source, target, read_name(row[identifier] if identifier else None), line
        )
