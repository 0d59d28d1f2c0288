"""What is nearly right in tables: lists as text, vectors of labels, headers that come again."""

from __future__ import annotations

import pytest

from bertwright.errors import DataError
from bertwright.tasks.columns import Columns
from bertwright.tasks.examples import labels_of
from bertwright.tasks.readers import ReadOptions, read_examples


def test_lists_of_labels_may_be_written_as_text(write):
    content = 'text,labels\na,"[\'x\', \'y\']"\nb,[]\nc,"[""x""]"\nd,x\ne,"[\'x\' \'y\']"\n'
    several = ReadOptions(multi_label=True, bad_rows="skip")
    read = read_examples(write("a.csv", content), "classification", options=several)
    assert [each.label for each in read.examples] == [("x", "y"), (), ("x",), ("x",)]
    assert read.skipped["label of a wrong form"].lines == [6]


@pytest.mark.parametrize("held", ["[0, 1, 0]", "[0.0, 0.0]", "[true, false, false]"])
def test_a_number_for_each_class_is_no_list_of_classes(write, held):
    path = write("a.jsonl", f'{{"text": "a", "labels": {held}}}\n')
    with pytest.raises(DataError, match=r"line 1: .* more than once.*expected the classes that"):
        read_examples(path, "classification", options=ReadOptions(multi_label=True))
    two = write("b.jsonl", '{"text": "a", "labels": [1, 4]}\n{"text": "b", "labels": ["x", "x"]}\n')
    read = read_examples(two, "classification", options=ReadOptions(multi_label=True))
    assert [each.label for each in read.examples] == [("1", "4"), ("x",)]


def test_labels_that_look_wrong_are_told(write):
    several = ReadOptions(multi_label=True)
    read = read_examples(
        write("a.csv", "text,labels\na,x;y\nb,x\nc,x\n"), "classification", options=several
    )
    assert any("'x;y' is learned as one class" in each for each in read.warnings)
    read = read_examples(write("b.csv", "text,label\na,NaN\nb,x\nc,x\n"), "classification")
    assert any("'NaN' is learned as a class" in each for each in read.warnings)


@pytest.mark.parametrize("rows_between", [1, 300])
def test_a_header_that_comes_again_is_no_example(write, rows_between):
    part = "text,label\n" + "a,x\nb,y\n" * rows_between
    path = write("a.csv", part + part)
    with pytest.raises(DataError, match=rf"line {2 * rows_between + 2}: the header comes again"):
        read_examples(path, "classification")
    read = read_examples(path, "classification", options=ReadOptions(bad_rows="skip"))
    assert labels_of(read.examples) == ("x", "y")
    assert len(read.examples) == 4 * rows_between


def test_json_by_columns_names_the_way_out(write):
    path = write("a.json", '{"text": {"0": "a", "1": "b"}, "label": {"0": "x", "1": "y"}}')
    with pytest.raises(DataError, match=r"a column after another.*orient='records'"):
        read_examples(path, "classification")


def test_a_pattern_is_no_name_of_a_file(tmp_path):
    with pytest.raises(DataError, match=r"expected the name of one file, no pattern"):
        read_examples(tmp_path / "*.csv", "classification")


def test_a_comma_in_a_number_is_told(write):
    with pytest.raises(DataError, match=r"line 2: the label '1,5' is no number.*with a point"):
        read_examples(write("a.csv", "text;score\na;1,5\n"), "regression")


def test_parquet_with_a_doubled_column_is_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table([["a"], ["b"]], names=["text", "text"]), path)
    with pytest.raises(DataError, match=r"names 'text' twice"):
        read_examples(path, "classification", Columns(text="text"))
