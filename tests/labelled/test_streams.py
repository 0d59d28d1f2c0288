"""Files without labels, of any size: the same examples as read whole, and no more than is asked."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
from bertwright.labelled.folders import refuse_missing
from tests.labelled.conftest import parse, parse_stream

FILES: dict[str, tuple[str, str]] = {
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
    read = parse(tmp_path / name, kind, require_labels=False)
    stream = parse_stream(tmp_path / name, kind)
    assert list(stream.examples) == list(read.examples)
    assert len(read.examples) == 2
    assert (stream.columns, stream.format) == (read.columns, read.format)
    assert stream.warnings == read.warnings


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
    examples: Iterator[object] = parse_stream("-", "classification").examples
    assert len(list(islice(examples, 1000))) == 1000
    assert endless.given < 20_000_000


@pytest.mark.parametrize("name", ["a.txt", "-"])
def test_a_long_first_line_is_a_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """By default csv's limit of a field is 131,072 characters."""
    line = "w " * 70_000
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    csv.field_size_limit(1 << 17)
    (tmp_path / "a.txt").write_text(line)
    path = "-" if name == "-" else tmp_path / name
    (example,) = parse_stream(path, "classification").examples
    assert example.text.strip() == line.strip()


@pytest.mark.parametrize("head", ["", "sep=;\n"])
def test_a_long_field_of_a_table(tmp_path: Path, head: str) -> None:
    csv.field_size_limit(1 << 17)
    (tmp_path / "a.csv").write_text(f"{head}text;label\n{'w ' * 70_000};x\n")
    (example,) = parse_stream(tmp_path / "a.csv", "classification").examples
    assert len(example.text) >= 139_999


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "id,text\n1,a\n2,\n3,c\n"),
        ("a.jsonl", '{"text": "a"}\n{"text": null}\n{"text": "c"}\n'),
    ],
)
def test_a_row_without_a_text_is_left_out_as_a_blank_line(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    stream = parse_stream(tmp_path / name, "classification")
    assert [each.text for each in stream.examples] == ["a", "c"]
    assert sum(each.count for each in stream.log.skipped.values()) == 1
    (tmp_path / "b.csv").write_text("text,text2\na,\n")
    with pytest.raises(DataError, match="line 2: empty text"):  # half of a pair is a mistake
        list(parse_stream(tmp_path / "b.csv", "classification").examples)


def test_a_bad_row_is_told_when_it_is_reached(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": ["b"]}\n{"text": "c"}\n')
    examples = parse_stream(tmp_path / "a.jsonl", "classification").examples
    next(examples)
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: "):
        next(examples)
    stream = parse_stream(tmp_path / "a.jsonl", "classification", bad_rows="skip")
    assert [each.line for each in stream.examples] == [1, 3]
    assert stream.log.skipped["text of a wrong type"].lines == [2]
    assert len(stream.warnings) == 1


def test_one_column_under_the_name_of_training_is_no_input(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Text\none\ntitle\n")

    def texts(**columns: str) -> list[str]:
        hint = Columns(**columns)
        stream = parse_stream(tmp_path / "a.txt", "classification", hint=hint)
        return [each.text for each in stream.examples]  # type: ignore[union-attr]

    assert texts(text="text", label="label") == ["one", "title"]
    assert texts(text="sentence") == ["Text", "one", "title"]
    assert texts() == ["Text", "one", "title"]


def test_only_known_tags_make_columns_of_plain_text(tmp_path: Path) -> None:
    def sentences(text: str) -> list[tuple[str, ...]]:
        (tmp_path / "a.txt").write_text(text)
        stream = parse_stream(tmp_path / "a.txt", "tagging", labels=["O", "B-PER"])
        return [each.words for each in stream.examples]  # type: ignore[union-attr]

    assert sentences("Ann NNP O\nsaw VBD O\n\n" * 5) == [("Ann", "saw")] * 5
    assert sentences("Ann NNP I-NP\nsaw VBD I-VP\n\n" * 5)[0] == ("Ann", "NNP", "I-NP")
    names = "".join(f"First{n} Last{n}\n" for n in range(10))
    assert sentences(f"{names}\n")[0] == ("First0", "Last0")
    assert sentences("come in\nthen sit\n\nlog in\n")[0] == ("come", "in")


def test_a_pipe_is_not_opened_to_see_whether_it_is_there(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refuse_missing(str(tmp_path / "pipe"))  # to open it would wait for a writer
    refuse_missing("-")
    for missing in (tmp_path, tmp_path / "none.txt"):
        with pytest.raises(DataError, match=str(missing)):
            refuse_missing(str(missing))
