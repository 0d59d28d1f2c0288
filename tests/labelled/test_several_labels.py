"""Texts with several labels: lists of 0 and 1, a column a class, and labels that are all alike."""

from __future__ import annotations

import json

import pytest

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns, make_columns
from tests.labelled.conftest import parse


def lines(labels):
    rows = [{"text": f"text {n}", "labels": each} for n, each in enumerate(labels)]
    return "\n".join(map(json.dumps, rows))


def classes(read):
    return [each.label for each in read.examples]


@pytest.mark.parametrize(
    "labels",
    [
        [[1, 0, 1], [0, 1, 1], [0, 0, 0]],
        [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]],
        [[True, False, True], [False, True, True], [False, False, False]],
        ["[1, 0, 1]", "[0 1 1]", "[0. 0. 0.]"],
        ["1,0,1", "0, 1, 1", "0,0,0"],
    ],
)
def test_a_list_of_0_and_1_names_classes_by_position(write, labels):
    read = parse(write("a.jsonl", lines(labels)), "classification", multi_label=True)
    assert classes(read) == [("1", "3"), ("2", "3"), ()]
    assert read.classes == ("1", "2", "3")
    assert any("--label NAME" in each for each in read.warnings)
    names = make_columns(None, None, ("sport", "art", "war"))
    read = parse(write("a.jsonl", lines(labels)), "classification", names, multi_label=True)
    assert classes(read) == [("sport", "war"), ("art", "war"), ()]
    assert read.classes == ("sport", "art", "war")  # not by the alphabet: positions are the order
    assert read.warnings == []
    labelled = make_columns(None, None, ("labels", "sport", "art", "war"))
    again = parse(write("a.jsonl", lines(labels)), "classification", labelled, multi_label=True)
    assert again.examples == read.examples


def test_lists_of_numbers_of_classes_stay_so(write):
    for labels in ([[0, 1], [1], [0]], [[0, 2], [1, 0]], [[1], [0]]):
        read = parse(write("a.jsonl", lines(labels)), "classification", multi_label=True)
        assert classes(read) == [tuple(map(str, each)) for each in labels]
        assert read.classes == ()


def test_lists_of_0_and_1_are_the_classes_of_the_model_by_its_order(write):
    path = write("a.jsonl", lines([[1, 0], [0, 1]]))
    read = parse(path, "classification", multi_label=True, labels=("b", "a"))
    assert classes(read) == [("b",), ("a",)]
    assert any("order of the model" in each for each in read.warnings)
    with pytest.raises(DataError, match=r"2 values.*3 classes"):
        parse(path, "classification", multi_label=True, labels=("a", "b", "c"))
    names = make_columns(None, None, ("x", "y", "z"))
    with pytest.raises(DataError, match=r"2 values.*--label.*3 classes"):
        parse(path, "classification", names, multi_label=True)


def test_a_list_of_another_length_or_value_is_a_bad_row(write):
    many = [[1, 0], [0, 1]] * 150
    for bad in ([1, 0, 1], [1, 2], ["x"]):
        path = write("a.jsonl", lines([*many, bad]))
        with pytest.raises(DataError, match=r"line 301: label.*0 or 1"):
            parse(path, "classification", multi_label=True)


COLUMNS = "id,comment_text,toxic,threat,mild\n0,one,1,0,1\n1,two,0,1,1\n2,three,0,0,0\n"


def test_a_column_a_class(write):
    path = write("a.csv", COLUMNS)
    asked = make_columns(None, None, ("threat", "Toxic"))
    read = parse(path, "classification", asked, multi_label=True)
    assert classes(read) == [("toxic",), ("threat",), ()]
    assert read.classes == ("threat", "toxic")
    assert [each.text for each in read.examples] == ["one", "two", "three"]
    assert [each.id for each in read.examples] == ["0", "1", "2"]
    # without an option: the columns of 0 and 1, which is said
    read = parse(path, "classification", multi_label=True)
    assert read.classes == ("toxic", "threat", "mild")
    assert any("'toxic', 'threat', 'mild'" in each for each in read.warnings)
    # a dev file has the classes of training in another order, and more
    dev = write("dev.csv", "x,mild,toxic,comment_text\n5,1,0,four\n6,0,1,five\n")
    read = parse(dev, "classification", multi_label=True, labels=("toxic", "mild"))
    assert classes(read) == [("mild",), ("toxic",)]


def test_a_column_that_is_no_class(write):
    asked = make_columns(None, None, ("toxic", "thret", "mild"))
    with pytest.raises(DataError, match=r"no column 'thret'"):
        parse(write("a.csv", COLUMNS), "classification", asked, multi_label=True)
    asked = make_columns(None, None, ("toxic", "threat"))
    three = write("a.csv", COLUMNS.replace("two,0,1", "two,0,3"))
    with pytest.raises(DataError, match=r"line 3: .*'3'.*'threat'"):
        parse(three, "classification", asked, multi_label=True)
    unscored = parse(
        write("a.csv", COLUMNS + "3,four,-1,-1,-1\n"), "classification", multi_label=True
    )
    assert len(unscored.examples) == 3
    assert any("not labelled" in each for each in unscored.warnings)
    # one label only: the command that reads them is part of the error
    with pytest.raises(DataError, match=r"no column of labels") as error:
        parse(write("a.csv", COLUMNS), "classification")
    words = ("--multi-label", "--label", "toxic", "threat", "mild")
    assert error.value.options == words


@pytest.mark.parametrize(
    ("row", "kind", "options"),
    [
        ({"labels": ["x", "y"]}, "classification", {"multi_label": True}),
        ({"label": "x"}, "classification", {}),
        ({"label": 2.0}, "regression", {}),
        ({"choices": ["b", "c"], "label": "B"}, "multiple-choice", {}),
        ({"target": "b"}, "generation", {}),
    ],
)
def test_labels_that_are_all_the_same_are_a_warning(write, row, kind, options):
    content = [row | {"text": text} for text in ("a", "b", "c")]
    read = parse(write("a.json", content), kind, **options)
    assert any("nothing to tell apart" in each for each in read.warnings)
    other = {"label": 0, "labels": ["x"], "target": "z"}
    content[0] |= {key: value for key, value in other.items() if key in content[0]}
    read = parse(write("a.json", content), kind, Columns(), **options)
    assert not any("nothing to tell apart" in each for each in read.warnings)


def rows_of(labels):
    quoted = ('"' + each.replace('"', '""') + '"' for each in labels)
    return "text,labels\n" + "".join(f"text {n},{each}\n" for n, each in enumerate(quoted))


@pytest.mark.parametrize("mark", [";", "|", "#", "\n", "; "])
def test_labels_joined_by_another_mark_are_split(write, mark):
    labels = [mark.join(each) for each in (["art", "war"], ["war"], ["art", "sport"], ["art"])]
    path = write("a.csv", rows_of(labels))
    read = parse(path, "classification", multi_label=True)
    assert classes(read) == [("art", "war"), ("war",), ("art", "sport"), ("art",)]
    assert any(repr(mark[0]) in each for each in read.warnings)
    few = write("b.csv", rows_of([labels[2]]))  # the model's classes say what the parts are
    again = parse(few, "classification", multi_label=True, labels=("art", "sport", "war"))
    assert classes(again) == [("art", "sport")]
    single = parse(path, "classification")
    assert any("--multi-label" in each for each in single.warnings)


def test_marks_within_names_are_no_separators(write):
    for labels in (["C#", "F#", "C#"], ["a;b", "c", "c"], ["a;b,c", "c", "a;b"]):
        path = write("a.csv", rows_of(labels))
        read = parse(path, "classification", multi_label=True)
        assert classes(read) == [tuple(each.split(",")) for each in labels]
    known = parse(path, "classification", multi_label=True, labels=("a;b", "c"))
    assert classes(known) == [("a;b", "c"), ("c",), ("a;b",)]


@pytest.mark.parametrize(
    "labels",
    [["['art', 'war']", "['war']"], ['["art", "war"]', '["war"]'], ["['art' 'war']", "['war']"]],
)
def test_lists_written_as_text_are_lists(write, labels):
    path = write("a.csv", rows_of([*labels, "[]"]))
    read = parse(path, "classification", multi_label=True)
    assert classes(read) == [("art", "war"), ("war",), ()]
    one = parse(write("b.csv", rows_of([labels[1], "['art']", "[sic]"])), "classification")
    assert classes(one) == ["war", "art", "[sic]"]
    with pytest.raises(DataError, match=r"line 2.*--multi-label"):
        parse(path, "classification")
