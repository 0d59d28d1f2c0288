"""Files of texts: lines, tables and standard input; how many are to come, and bad rows."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest

from bertwright.errors import DataError
from bertwright.inference.files.texts import open_texts
from tests.raising import raises


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes("\ufeffHello\n\ufeffb\n".encode())
    assert [text for text, _ in open_texts(str(path)).rows] == ["Hello", "b"]


@pytest.mark.parametrize(
    ("sent", "column", "expected"),
    [
        ('{"text": "one"}\n{"text": "two"}\n', None, ["one", "two"]),
        ('\ufeff{"id": 1, "sentence": "one"}\n', None, ["one"]),
        ('{"text": "one"}', None, ["one"]),
        ('{"a": "one"}\n', "a", ["one"]),
        ('{"a": "one"}\n', None, []),
        ('a,b\none,two\n"1, 2",three\n', "b", ["two", "three"]),
        ("a;b\n1,5;two\n", "b", ["two"]),
        ("a\tb\n1,5\ttwo\n", "b", ["two"]),
        ("{not an object}\n\n[1]\n", None, ["{not an object}", "", "[1]"]),
        ("one\n{}\n", None, ["one", "{}"]),
    ],
)
def test_standard_input_is_lines_or_a_table(
    sent: str, column: str | None, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(sent.encode())))
    monkeypatch.setattr(sys, "stdin", stream)
    if not expected:
        raises(DataError, r"it has 'a'\. Name one: --text COLUMN", open_texts, "-", column)
        return
    assert [text for text, _ in open_texts("-", column).rows] == expected


@pytest.mark.parametrize(
    ("name", "content", "total"),
    [("a.txt", b"x\ny\n", 2), ("a.jsonl", b'{"text": "x"}\n', 1), ("a.csv", b"text\nx\n", None)],
)
def test_how_many_texts_are_to_come(
    tmp_path: Path, name: str, content: bytes, total: int | None
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"x\ny\n"))
    assert open_texts(str(tmp_path / name)).total == total
    assert open_texts(str(tmp_path / "b.txt.gz")).total is None
