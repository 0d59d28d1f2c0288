"""A folder per class, a text per file: the commonest layout of a text corpus with labels."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
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
    with pytest.raises(DataError, match=r"top\.txt.*CLASS/FILE\.txt"):
        parse(reviews, "classification")


def test_what_cannot_be_read(reviews: Path, tmp_path: Path) -> None:
    (reviews / "pos" / "4.txt").write_text("  ")
    with pytest.raises(DataError, match=r"row 5: .*'text'"):
        parse(reviews, "classification")
    assert len(parse(reviews, "classification", bad_rows="skip").examples) == 5
    (tmp_path / "none").mkdir()
    for path, kind in ((tmp_path / "none", "classification"), (reviews, "tagging")):
        with pytest.raises(DataError, match="is a folder; expected a file"):
            parse(path, kind)  # type: ignore[arg-type]


def test_texts_without_a_class_are_left_out(reviews: Path) -> None:
    """As in IMDb's folder `train`."""
    before = parse(reviews, "classification")
    (reviews / "unsup").mkdir()
    (reviews / "unsup" / "1.txt").write_text("who knows")
    (reviews / "urls_pos.txt").write_text("example.org\n")
    read = parse(reviews, "classification")
    assert read.examples == before.examples
    assert [each for each in read.warnings if "1 left out" in each and "'unsup'" in each]
    assert len([*parse_stream(reviews, "classification").examples]) == len(before.examples) + 2


def test_folders_of_train_and_test_are_no_classes(reviews: Path, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    reviews.rename(tmp_path / "whole" / "train")
    (tmp_path / "whole" / "test" / "pos").mkdir(parents=True)
    (tmp_path / "whole" / "test" / "pos" / "1.txt").write_text("nice")
    with pytest.raises(DataError, match=r"--train .*whole/train --dev .*whole/test"):
        parse(tmp_path / "whole", "classification")
    assert len(parse(tmp_path / "whole" / "train", "classification").examples) == 5


def test_malformed_utf8_is_warned_of(reviews: Path) -> None:
    (reviews / "neg" / "1.txt").write_bytes("trist\u00e9".encode("latin-1"))
    (warning,) = parse(reviews, "classification").warnings
    assert "1 malformed" in warning
    assert "neg/1.txt" in warning
