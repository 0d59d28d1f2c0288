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
        ("text,labels\na,\"['x', 'y']\"\n", "line 2: list written as text: .* commas between"),
        *(
            (f'{{"text": "a", "labels": {held}}}\n', "line 1: .* more than once.*the classes that")
            for held in ("[0, 1, 0]", "[0.0, 0.0]", "[true, false, false]", '"0,1,0"')
        ),
    ],
)
def test_what_is_no_list_of_classes(write, content, message):
    with pytest.raises(DataError, match=message):
        parse(write("a.txt", content), "classification", multi_label=True)


def test_a_list_of_classes_may_hold_numbers(write):
    two = write("b.jsonl", '{"text": "a", "labels": [1, 4]}\n{"text": "b", "labels": ["x", "x"]}\n')
    read = parse(two, "classification", multi_label=True)
    assert [each.label for each in read.examples] == [("1", "4"), ("x",)]


def test_labels_that_look_wrong_are_told(write):
    read = parse(write("b.csv", "text,label\na,NaN\nb,x\nc,x\n"), "classification")
    assert any("'NaN' is a class" in each for each in read.warnings)


CLASSES = "text,a,b,c\nx,1,0,0\ny,0,1,0\nz,1,1,0\nw,0,0,0\n"


def test_a_class_that_no_text_has_is_told(write):
    path = write("a.csv", CLASSES)
    read = parse(path, "classification", Columns(label="a,b,c"), multi_label=True)
    assert [
        each for each in read.warnings if "no text has 'c', as the columns hold 0 alone" in each
    ]
    read = parse(path, "classification", Columns(label="a,b"), multi_label=True)
    assert read.warnings == []


def test_a_file_to_evaluate_lacks_columns_of_classes(write):
    """What is not asked for would count as not held, and a missing column is named."""
    known = {"multi_label": True, "labels": ["a", "b"], "hint": Columns("text", None, "a,b")}
    whole = parse(write("a.csv", CLASSES), "classification", **known)
    assert [each.label for each in whole.examples] == [("a",), ("b",), ("a", "b"), ()]
    assert whole.warnings == []
    path = write("b.csv", CLASSES.replace("a,b,c", "a,B2,c"))
    with pytest.raises(DataError, match="lacks 'b' of training's columns 'a', 'b'"):
        parse(path, "classification", **known)
    path = write("c.csv", CLASSES.replace("a,b,c", "a,B2,a2"))
    read = parse(path, "classification", Columns(label="a,a2"), **known)
    assert "no column is chosen for 'b', which training had" in read.warnings[0]


@pytest.mark.parametrize("rows_between", [1, 300])
def test_a_header_that_comes_again_is_no_example(write, rows_between):
    part = "text,label\n" + "a,x\nb,y\n" * rows_between
    path = write("a.csv", part + part)
    with pytest.raises(DataError, match=rf"line {2 * rows_between + 2}: the header again"):
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
