"""What is nearly right in tables: lists as text, vectors of labels, headers that come again."""

from __future__ import annotations

import pytest

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import labels_of
from tests.labelled.conftest import parse


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('text,labels\na,"[x, y]"\n', r"line 2: list written as text: .* commas between"),
        (
            '{"text": "a", "labels": [0, 1, 0]}\n{"text": "b", "labels": [2, 2]}\n',
            "line 1: class more than once.*the classes that",
        ),
    ],
)
def test_what_is_no_list_of_classes(write, content, message):
    with pytest.raises(DataError, match=message):
        parse(write("a.txt", content), "classification", multi_label=True)


def test_a_list_of_classes_may_hold_numbers(write):
    two = write("b.jsonl", '{"text": "a", "labels": [1, 4]}\n{"text": "b", "labels": ["x"]}\n')
    read = parse(two, "classification", multi_label=True)
    assert [each.label for each in read.examples] == [("1", "4"), ("x",)]


@pytest.mark.parametrize("rows_between", [1, 300])
def test_a_header_that_comes_again_is_no_example(write, rows_between):
    part = "text,label\n" + "a,x\nb,y\n" * rows_between
    path = write("a.csv", part + part)
    with pytest.raises(DataError, match=rf"line {2 * rows_between + 2}: .*header"):
        parse(path, "classification")
    read = parse(path, "classification", bad_rows="skip")
    assert labels_of(read.examples) == ("x", "y")
    assert len(read.examples) == 4 * rows_between


def test_parquet_with_a_doubled_column_is_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table([["a"], ["b"]], names=["text", "text"]), path)
    with pytest.raises(DataError, match=r"names 'text' twice"):
        parse(path, "classification", Columns(text="text"))


def test_a_header_names_columns_in_another_order(write):
    path = write("a.tsv", "label\ttoken\nB-X\ta\nO\tb\n\nO\tc\n")
    read = parse(path, "tagging")
    found = [(each.words, each.tags) for each in read.examples]
    assert found == [(("a", "b"), ("B-X", "O")), (("c",), ("O",))]
    table = write("b.tsv", "label\ttext\nx\ta b\n")  # a table of texts, whose label is left alone
    read = parse(table, "tagging", require_labels=False)
    assert [each.words for each in read.examples] == [("a", "b")]
