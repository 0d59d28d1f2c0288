"""A zero byte in a text vanishes, as to BERT, and is counted; a file full of them is no text."""

from __future__ import annotations

import io

import pytest

from bertwright.errors import DataError
from bertwright.rows.lines import read_text
from bertwright.text.corpus.report import CorpusReport


def test_zero_bytes_are_dropped_and_counted() -> None:
    report = CorpusReport()
    data = b"one\0 word " + "é ".encode() * 600_000 + b"last\0\0."
    text = "".join(read_text(io.BytesIO(data), "x.txt", report))
    assert text == data.replace(b"\0", b"").decode()
    assert report.zero_bytes == 3
    assert report.bytes == len(data)
    assert "3 zero bytes dropped" in report.remarks()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_named(encoding: str) -> None:
    data = "a text of two bytes each\n".encode(encoding) * 9
    with pytest.raises(DataError, match=f"iconv -f UTF-16{encoding[-2:].upper()}"):
        list(read_text(io.BytesIO(data), "x.txt", CorpusReport()))
