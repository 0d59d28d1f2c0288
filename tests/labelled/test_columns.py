"""Columns that options name or number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import TextExample
from bertwright.labelled.read import read_examples

Write = Callable[[str, str], Path]


def read(path: Path, columns: Columns) -> list[tuple[str, object]]:
    """Text and label of each example."""
    examples = read_examples(path, "classification", columns).examples
    return [(e.text, e.label) for e in examples if isinstance(e, TextExample)]


def test_columns_of_a_header_go_by_number_too(write: Write) -> None:
    """So that one pair of options reads a training file without a header and a dev file with."""
    numbers = Columns("1", None, "2")
    for content in ("fine\tx\n", "body\tlabel\nfine\tx\n", "text\tclass\nfine\tx\n"):
        assert read(write("a.tsv", content), numbers) == [("fine", "x")]
    row = '{"2": "b", "1": "a", "label": "x"}\n'
    assert read(write("a.jsonl", row), Columns("1")) == [("a", "x")]  # a name is a name
    with pytest.raises(DataError, match=r"no column '3'; it has 'text', 'label'"):
        read(write("a.tsv", "text\tlabel\na\tx\n"), Columns("3"))
