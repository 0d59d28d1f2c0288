"""A folder per class, a text per file: the commonest layout of a text corpus with labels."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from bertwright.errors import DataError
from bertwright.labelled.tables.columns import Columns
from tests.labelled.conftest import parse, parse_stream


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Three good texts and two bad ones, among files that are none."""
    for name, text in {
        "pos/1.txt": "a wonderful film\nof two lines\n",
        "pos/2.txt": "\ufefffine",
        "pos/deep/3.text": "good",
        "neg/1.txt": "dull",
        "neg/.hidden.txt": "not read",
        "neg/notes.md": "not read",
    }.items():
        path = tmp_path / "reviews" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "reviews" / "neg" / "2.txt.xz").write_bytes(lzma.compress(b"long"))
    return tmp_path / "reviews"


def test_a_folder_is_a_class(reviews: Path) -> None:
    read = parse(reviews, "classification")
    found = [(each.id, each.text, each.label) for each in read.examples]  # type: ignore[union-attr]
    assert found == [
        ("neg/1.txt", "dull", "neg"),
        ("neg/2.txt.xz", "long", "neg"),
        ("pos/1.txt", "a wonderful film\nof two lines", "pos"),
        ("pos/2.txt", "fine", "pos"),
        ("pos/deep/3.text", "good", "pos"),
    ]
    assert read.columns == Columns("text", None, "label")


def test_to_predict_the_texts_alone(reviews: Path) -> None:
    (reviews / "top.txt").write_text("one more")
    stream = parse_stream(reviews, "classification")
    assert [each.id for each in stream.examples][-1] == "top.txt"
    with pytest.raises(DataError, match=r"top.txt is not in the folder of a class.*CLASS/FILE.txt"):
        parse(reviews, "classification")


def test_what_cannot_be_read(reviews: Path, tmp_path: Path) -> None:
    (reviews / "pos" / "4.txt").write_text("  ")
    with pytest.raises(DataError, match="row 5: empty text: column 'text'"):
        parse(reviews, "classification")
    assert len(parse(reviews, "classification", bad_rows="skip").examples) == 5
    (tmp_path / "none").mkdir()
    for path, kind in ((tmp_path / "none", "classification"), (reviews, "tagging")):
        with pytest.raises(DataError, match="is a folder; expected a file"):
            parse(path, kind)  # type: ignore[arg-type]
