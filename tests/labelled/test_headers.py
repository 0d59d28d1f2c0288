"""Files without a header, and headers of unknown names."""

from __future__ import annotations

import pytest

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
from tests.labelled.conftest import parse, parse_stream

TEXTS = [f"a text of some words, number {n}" for n in range(12)]
LABELS = ["good", "bad", "so so"] * 4
ROWS = [*zip(TEXTS, LABELS, strict=True)]


def table(rows, mark="\t"):
    quote = '"' if mark == "," else ""
    return "".join(mark.join(f"{quote}{cell}{quote}" for cell in row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.tsv", table(ROWS), ("1", "2")),
        ("a.txt", table(ROWS), ("1", "2")),
        ("a.csv", table(ROWS, ","), ("1", "2")),
        ("a.tsv", table([(label, text) for text, label in ROWS]), ("2", "1")),
        ("a.tsv", table([("phrase", "polarity"), *ROWS]), ("phrase", "polarity")),
        ("a.csv", table([("phrase", "polarity"), *ROWS], ","), ("phrase", "polarity")),
    ],
)
def test_options_name_columns_without_known_names(write, name, content, columns):
    path = write(name, content)
    if name != "a.txt":
        with pytest.raises(DataError, match=r"'good'|'polarity'.*--text COLUMN --label COLUMN"):
            parse(path, "classification")
    read = parse(path, "classification", Columns(columns[0], None, columns[1]))
    assert [(each.text, each.label) for each in read.examples] == ROWS
    assert read.warnings == []
    # a file to predict is read as the training file was, its labels left alone
    stream = parse_stream(path, "classification", hint=read.columns)
    assert [each.text for each in stream.examples] == TEXTS


def test_fasttext_lines(write):
    content = "__label__good a fine  film\n\n__label__bad __label__long dull __label__slow\n"
    path = write("a.txt", content)
    with pytest.raises(DataError, match=r"line 3: .*--multi-label"):
        parse(path, "classification")
    read = parse(path, "classification", multi_label=True)
    assert [(each.text, each.label) for each in read.examples] == [
        ("a fine  film", ("good",)),
        ("dull", ("bad", "long", "slow")),
    ]
    one = write("b", "__label__good a fine film\n__label__1,5 dull\n")
    assert [each.label for each in parse(one, "classification").examples] == ["good", "1,5"]
    assert [each.text for each in parse_stream(one, "classification").examples] == [
        "a fine film",
        "dull",
    ]
    numbers = write("c.txt", "__label__0.5 a\n__label__2 b\n")
    assert [each.label for each in parse(numbers, "regression").examples] == [0.5, 2.0]


@pytest.mark.parametrize("mark", [";", "|", "\t"])
def test_the_separator_that_excel_names(write, mark):
    content = f'sep={mark}\r\nText{mark}Label\r\n"a,b;c"{mark}x\r\nd{mark}y\r\n'
    read = parse(write("a.csv", content), "classification")
    assert [(each.text, each.label) for each in read.examples] == [("a,b;c", "x"), ("d", "y")]
    assert [each.line for each in read.examples] == [3, 4]


def test_an_array_named_jsonl_is_json(write):
    array = '[\n {"text": "a", "label": "x"},\n {"text": "b", "label": "y"}\n]\n'
    for content in (array, '{\n "data": ' + array + "}\n", "\n" + array.replace("\n", "")):
        read = parse(write("a.jsonl", content), "classification")
        assert [each.label for each in read.examples] == ["x", "y"]
