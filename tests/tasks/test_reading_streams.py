"""Files without labels, of any size: the same examples as read whole, and no more than is asked."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from bertwright.config.task import Kind
from bertwright.errors import DataError
from bertwright.tasks.readers import read_examples, stream_examples

FILES: dict[str, tuple[Kind, str]] = {
    "a.txt": ("classification", "one\n\ntwo\n"),
    "a.tsv": ("classification", "text\tlabel\none\tx\ntwo\ty\n"),
    "b.csv": ("regression", "sentence1,sentence2\none,two\nthree,four\n"),
    "a.jsonl": ("multiple-choice", '{"text": "a", "choices": ["b", "c"]}\n' * 2),
    "b.jsonl": ("span", '{"question": "a", "context": "b"}\n' * 2),
    "b.txt": ("tagging", "one, two\nthree\n"),
    "a.conll": ("tagging", "one O\ntwo O\n\nthree O\n"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_stream_is_the_file(tmp_path: Path, name: str) -> None:
    kind, text = FILES[name]
    (tmp_path / name).write_text(text)
    read = read_examples(tmp_path / name, kind, require_labels=False)
    stream = stream_examples(tmp_path / name, kind)
    assert list(stream.examples) == list(read.examples)
    assert len(read.examples) == 2
    assert (stream.columns, stream.format) == (read.columns, read.format)
    assert stream.warnings() == read.warnings


def test_no_more_is_read_than_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        """Lines without end."""

        given = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            line = b"a line of text\n" * 64
            size = min(len(line), len(buffer))
            buffer[:size] = line[:size]
            self.given += size
            return size

    endless = Endless()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(endless)))
    examples: Iterator[object] = stream_examples("-", "classification").examples
    assert len(list(islice(examples, 1000))) == 1000
    assert endless.given < 20_000_000


def test_a_bad_row_is_told_when_it_is_reached(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": ""}\n{"text": "c"}\n')
    examples = stream_examples(tmp_path / "a.jsonl", "classification").examples
    next(examples)
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: .* is empty"):
        next(examples)
    stream = stream_examples(tmp_path / "a.jsonl", "classification", bad_rows="skip")
    assert [each.line for each in stream.examples] == [1, 3]
    assert stream.log.skipped["empty text"].lines == [2]
    assert len(stream.warnings()) == 1
