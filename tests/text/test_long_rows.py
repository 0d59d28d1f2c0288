"""Rows that are too long to be held, by the rules of `json` and `csv`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.config.corpus import CorpusConfig
from bertwright.errors import DataError
from bertwright.text import long_rows
from bertwright.text.corpus.read import CorpusReport, read_blocks
from bertwright.text.long_rows import (
    LongRow,
    LongText,
    field_of_row,
    split_long_csv,
    split_long_lines,
    string_of_object,
)

TEXTS = st.text(st.sampled_from('ab,;"\n\t \\é😀\ud83d'), max_size=30)
WHERE = "file, line 1"


def pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


@given(TEXTS, TEXTS, st.integers(1, 9), st.booleans())
def test_a_string_of_a_long_object_is_what_json_reads(
    text: str, other: str, size: int, ascii_only: bool
) -> None:
    row = {"other": [{"x": other}, -1.5], "text": text, "é": None, "last": {"a": [True]}}
    line = json.dumps(row, ensure_ascii=ascii_only)
    found = "".join(string_of_object(pieces(line, size), "text", WHERE))
    assert found == json.loads(line)["text"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"text": "a', "no end"),
        ('{"text": "a"', "the end"),
        ('{"text": "a"} 1', "follows"),
        ('{"text": "\\q"}', "no JSON"),
        ('{"text": 3}', "no string"),
        ('{"other": "a"}', "no column 'text'"),
        ('["text"]', "expected {"),
        ('{"text": "a", "text": "b"}', "twice"),
    ],
)
def test_a_long_line_that_is_no_object_is_an_error(line: str, named: str) -> None:
    with pytest.raises(DataError, match=f"{WHERE}.*{named}"):
        list(string_of_object(pieces(line, 3), "text", WHERE))


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4), st.integers(1, 9))
def test_a_field_of_a_long_row_is_what_csv_reads(rows: list[tuple[str, str]], size: int) -> None:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    read = list(csv.reader(io.StringIO(file.getvalue()), strict=True))
    parts = pieces(file.getvalue(), 1)  # a row is left where it ends
    for row in read:
        for_row = LongRow(parts, ",", True)
        assert "".join(field_of_row(for_row, 1, 2, WHERE)) == row[1]


def test_a_long_row_with_other_fields_than_the_header_is_an_error() -> None:
    with pytest.raises(DataError, match=r"3 fields.*2"):
        list(field_of_row(LongRow(iter(["a,b,c\n"]), ",", True), 0, 2, WHERE))
    with pytest.raises(DataError, match="not closed"):
        list(field_of_row(LongRow(iter(['"a,b\n']), ",", True), 0, 2, WHERE))


@given(st.lists(st.text("ab", max_size=12), max_size=8), st.integers(1, 7))
def test_lines_are_the_same_whole_or_in_parts(lines: list[str], size: int) -> None:
    text = "\n".join(lines)
    found = [
        "".join(line.parts) if isinstance(line, LongText) else line
        for line in split_long_lines(pieces(text, size), longest=5)
    ]
    assert found == (text.split("\n") if text else []) or [*found, ""] == text.split("\n")


def test_a_long_line_that_nobody_reads_is_passed_over() -> None:
    found = list(split_long_lines(pieces("ab\n" + "x" * 40 + "\ncd", 4), longest=5))
    assert [line for line in found if isinstance(line, str)] == ["ab", "cd"]


LONG = 'Some words, and "quotes".\nA second line. ' * 40


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv"])
def test_long_rows_of_a_corpus_are_read_as_short_ones_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    rows = [{"id": str(n), "text": text} for n, text in enumerate(["One.", LONG, "Two.", LONG])]
    path = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["id", "text"], delimiter=",\t"[kind == "tsv"])
            writer.writeheader()
            writer.writerows(rows)

    def read() -> list[str]:
        return [
            text for block in read_blocks([str(path)], CorpusConfig(), report) for text in block
        ]

    report = CorpusReport()
    expected = read()
    assert expected == [row["text"].strip() for row in rows]
    assert report.unquoted_tables == (kind == "tsv")
    monkeypatch.setattr(long_rows, "LONGEST_ROW", 200)
    assert read() == expected


def test_a_quote_is_a_character_in_tsv_that_does_not_show_that_it_quotes(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text('id\ttext\n1\t"So" he said.\n2\tA 5" disk.\n')
    report = CorpusReport()
    (block,) = read_blocks([str(path)], CorpusConfig(), report)
    assert block == ['"So" he said.', 'A 5" disk.']
    assert report.unquoted_tables == 0


def test_excels_first_line_names_the_separator(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('sep=;\nid;text\n1;"One; two."\n')
    (block,) = read_blocks([str(path)], CorpusConfig(), CorpusReport())
    assert block == ["One; two."]


def test_numbers_of_lines_count_on_behind_a_long_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_rows, "LONGEST_ROW", 10)
    lines = iter(["a,b", "1,2", '1,"' + "x" * 9, "y", 'z"', "", "3,4"])
    numbers = []
    for number, row in split_long_csv(lines, "file", ","):
        numbers.append(number)
        if isinstance(row, LongRow):
            assert "".join(field_of_row(row, 1, 2, WHERE)) == "x" * 9 + "\ny\nz"
    assert numbers == [1, 2, 3, 7]
