"""Columns that options name or number."""

import pytest

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
from bertwright.labelled.read import read_examples


def rows(read):
    return [(each.text, each.text2, each.label) for each in read.examples]


def test_columns_of_a_header_go_by_number_too(write):
    """So that one pair of options reads a training file without a header and a dev file with."""
    numbers = Columns("1", None, "2")
    for content in ("fine\tx\n", "body\tlabel\nfine\tx\n", "text\tclass\nfine\tx\n"):
        assert rows(read_examples(write("a.tsv", content), "classification", numbers)) == [
            ("fine", None, "x")
        ]
    row = '{"2": "b", "1": "a", "label": "x"}\n'
    named = read_examples(write("a.jsonl", row), "classification", Columns("1"))
    assert rows(named) == [("a", None, "x")]  # a name is a name
    with pytest.raises(DataError, match=r"no column '3'; it has 'text', 'label'"):
        read_examples(write("a.tsv", "text\tlabel\na\tx\n"), "classification", Columns("3"))
