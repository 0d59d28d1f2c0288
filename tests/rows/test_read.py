"""A file of any format is the same table: its rows, its columns, its errors."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from bertwright.errors import DataError
from bertwright.rows import lines, tables
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.columns import Table
from bertwright.rows.lines import ByteCounts, line_groups
from bertwright.rows.read import MemoryRows, open_rows, read_table

ROWS = [("a, b", "x"), ('"c"', "y"), ("d\ne", "x")]
OBJECTS = [{"text": text, "label": label} for text, label in ROWS]
FILES = {
    "a.csv": 'text,label\n"a, b",x\n"""c""",y\n"d\ne",x\n',
    "semicolons.csv": 'text;label\n"a, b";x\n"""c""";y\n"d\ne";x\n',
    "excel.csv": 'sep=|\ntext|label\n"a, b"|x\n"""c"""|y\n"d\ne"|x\n',
    "pandas.tsv": 'text\tlabel\na, b\tx\n"""c"""\ty\n"d\ne"\tx\n',
    "a.jsonl": "".join(json.dumps(each) + "\n" for each in OBJECTS),
    "a.ndjson": "\n".join(json.dumps(each) for each in OBJECTS),
    "array.jsonl": json.dumps(OBJECTS),
    "a.json": json.dumps(OBJECTS, indent=1),
    "data.json": json.dumps({"version": 1, "data": OBJECTS}),
    "without a suffix": 'text,label\n"a, b",x\n"""c""",y\n"d\ne",x\n',
}


def table_of(path: Path, *named: str, **options: Any) -> Table:
    return read_table(open_rows(path, named), named, BadRowLog(path.name), **options)


def values_of(table: Table, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(values) for _, values in table.rows(names)]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("packed", [False, True])
def test_every_format_is_the_same_table(tmp_path: Path, name: str, packed: bool) -> None:
    path = tmp_path / (f"{name}.gz" if packed else name)
    data = FILES[name].encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    table = table_of(path)
    assert table.columns == ["text", "label"]
    assert [tuple(row) for row in table.sample()] == ROWS
    assert values_of(table, "text", "label") == ROWS
    assert values_of(table_of(path), "label") == [(label,) for _, label in ROWS]


def test_parquet_and_rows_in_memory_are_the_same_table(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(OBJECTS), path)
    packed = tmp_path / "b.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for each in (path, packed):
        table = table_of(each)
        assert [tuple(row) for row in table.sample()] == ROWS
        assert values_of(table, "text", "label") == ROWS
    memory = read_table(open_rows(MemoryRows("memory", OBJECTS)), (), BadRowLog("memory"))
    assert values_of(memory, "text", "label") == ROWS


def test_a_file_without_a_header_has_columns_by_number(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a b\tx\nc d\ty\n")
    table = table_of(path)
    assert table.columns == ["1", "2"]
    assert values_of(table, "2", "1") == [("x", "a b"), ("y", "c d")]
    assert table_of(path, header=True).columns == ["a b", "x"]
    assert table_of(path, "a b").columns == ["a b", "x"]


def test_a_column_is_found_by_its_purpose_or_its_option(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ID,Review,Stars\n1,fine,5\n")
    table = table_of(path)
    assert table.find(None, "texts", "--text") == "Review"
    assert table.find("review", "texts", "--text") == "Review"
    assert table.find("3", "texts", "--text") == "Stars"
    assert table.id(["Review"]) == "ID"
    assert table.unread(["Review"]) == ("ID", "Stars")
    with pytest.raises(DataError, match=r"a\.csv.*'title'.*'ID', 'Review', 'Stars'.*--text COL"):
        table.named("title", "--text")
    with pytest.raises(DataError, match=r"answers.*--label COLUMN"):
        table.find(None, "answers", "--label")


def test_a_column_with_the_name_of_another_is_an_error_only_if_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,note,note\na,b,c\n")
    table = table_of(path)
    assert values_of(table, table.find(None, "texts", "--text")) == [("a",)]
    with pytest.raises(DataError, match="'note' twice"):
        table.named("note", "--text")


def test_a_header_between_the_rows_is_left_out_where_it_is_expected(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text\na\ntext\nb\n")
    table = table_of(path, "text", header=True)
    assert values_of(table, "text") == [("a",), ("b",)]
    assert [each.lines for each in table.log.skipped.values()] == [[3]]
    with pytest.raises(DataError, match="line 3: the header again"):
        values_of(table_of(path, "text"), "text")


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.csv", "text,label\na,x\n" + "b" * 90 + ",y\n", 3),
        ("a.csv", 'text,label\na,x\n"b\n' + "c\n" * 90, 3),
        ("a.tsv", "text\tlabel\na\tx\n" + "b" * 90 + "\ty\n", 3),
        ("a.jsonl", '{"text": "a"}\n{"text": "%s"}\n' % ("b" * 90), 2),
        ("a.json", '[{"text": "%s"}]' % ("b" * 90), 1),
    ],
)
def test_a_row_over_the_limit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str, line: int
) -> None:
    for module in (lines, tables):
        monkeypatch.setattr(module, "MAX_ROW_CHARACTERS", 64)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 16)
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=rf"{name}, line {line}.* 64 characters"):
        values_of(table_of(tmp_path / name, "text"), "text")


def test_malformed_and_zero_bytes_are_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\na\0,x\nb\xff,y\n")
    file = open_rows(path)
    table = read_table(file, (), BadRowLog("a.csv"))
    assert values_of(table, "text") == [("a",), ("b\ufffd",)]
    zeros, malformed = file.counts.byte_remarks()
    assert zeros.startswith("1 zero byte")
    assert f"{path}, byte 16" in malformed
    assert "iconv" in malformed


def test_lines_come_as_they_arrive() -> None:
    def blocks() -> Iterator[str]:
        yield "a\nb"
        yield "c\nd\n"
        raise AssertionError("read too far")

    assert list(islice(line_groups(blocks(), "a"), 2)) == [["a"], ["bc", "d"]]


def test_a_line_may_be_split_where_it_need_not_be_whole() -> None:
    parts = ["a" * 5, "b" * 5, "c\nd\n"]
    assert list(line_groups(parts, "a", 8, whole=False)) == [["a" * 5 + "b" * 5], ["c", "d"]]
    with pytest.raises(DataError, match="line 1"):
        list(line_groups(parts, "a", 8))


def test_counts_of_a_file_without_faults_say_nothing() -> None:
    assert ByteCounts(bytes=7).byte_remarks() == []
