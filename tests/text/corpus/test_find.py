"""Finding the files of a corpus; what is missing or of unknown form."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from bertwright.errors import ConfigError, DataError
from bertwright.rows.open import open_bytes, size_on_disk
from bertwright.text.corpus.find import are_parallel, find_files, format_of
from tests.raising import raises


def test_formats() -> None:
    assert format_of(Path("a.txt")) == ".txt"
    assert format_of(Path("a.b.JSONL.zst")) == ".jsonl"
    assert format_of(Path("a.gz")) == ""
    assert format_of(Path("a.pdf")) == ""


def test_files_folders_and_globs_come_once_and_sorted(tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    for name in ["z.txt", "a.csv", "b/x.jsonl.gz", "b/c/y.txt", "b/.hidden.txt", "b/notes.pdf"]:
        (tmp_path / name).write_text("x")
    everything = ["a.csv", "b/c/y.txt", "b/x.jsonl.gz", "z.txt"]
    assert find_files([str(tmp_path)]) == [tmp_path / name for name in everything]
    globbed = find_files([str(tmp_path / "**/*.txt"), str(tmp_path / "z.txt"), "-", "hf:a/b:train"])
    assert globbed == [tmp_path / "b/c/y.txt", tmp_path / "z.txt", Path("-"), Path("hf:a/b:train")]
    assert size_on_disk([tmp_path / "z.txt", tmp_path / "a.csv"]) == 2
    assert size_on_disk(globbed) is None


def test_a_file_whose_name_looks_like_a_glob(tmp_path: Path) -> None:
    path = tmp_path / "a[1].txt"
    path.write_text("x")
    assert find_files([str(path)]) == [path]


def test_what_cannot_be_found(tmp_path: Path) -> None:
    for name in ("corpus.txt", "corpus.docx", "corpus.json", "pdfs/a.pdf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "empty").mkdir()
    raises(ConfigError, "corpus", find_files, [])
    for name, message in (
        ("corpsu.txt", r"corpsu\.txt.*corpus\.txt"),
        ("corpus.docx", r"extension.*\.txt .*\.zst"),
        ("corpus.json", r"extension.*\.jsonl"),
        ("empty", r"empty"),
        ("pdfs", r"known extension.*\.pdf"),
        ("*.docx", r"known extension.*\.docx.*1 match"),
    ):
        raises(DataError, message, find_files, [str(tmp_path / name)])


def test_links_are_followed_and_a_file_is_read_once(tmp_path: Path) -> None:
    for name in ["corpus/a.txt", "corpus/notes.md", "elsewhere/b.txt"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    corpus = tmp_path / "corpus"
    (corpus / "c.txt").symlink_to("a.txt")
    (corpus / "linked").symlink_to("../elsewhere")
    (corpus / "round").symlink_to("../corpus")
    passed_over: list[Path] = []
    again = str(corpus / ".." / "corpus" / "a.txt")
    found = find_files([str(corpus), again], passed_over)
    assert found == [corpus / "a.txt", corpus / "linked" / "b.txt"]
    assert passed_over == [corpus / "notes.md"]


def test_a_folder_that_cannot_be_entered_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.txt").write_text("x")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    raises(DataError, "closed.*Permission denied", find_files, [str(tmp_path)])


def test_no_compression_inside(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(b"plain text")
    with (
        open_bytes(path) as stream,
        pytest.raises(DataError, match=r"corrupt.* 0 good"),
    ):
        stream.read()
    path.write_bytes(b"")
    with open_bytes(path) as stream:
        assert stream.read() == b""


def test_two_files_of_parallel_text_are_read_as_text(tmp_path: Path) -> None:
    names = ("train.en", "train.de", "other.de", "train.md", "train.tsv")
    paths = {name: tmp_path / name for name in names}
    for name, path in paths.items():
        path.write_text(f"Text of {name}.\n")
    pair = [str(paths["train.en"]), str(paths["train.de"])]
    assert find_files(pair) == [paths["train.en"], paths["train.de"]]
    packed = tmp_path / "train.de.gz"
    packed.write_bytes(gzip.compress(b"Text."))
    assert find_files([pair[0], str(packed)]) == [paths["train.en"], packed]
    for other in ("other.de", "train.tsv"):
        assert not are_parallel([pair[0], str(paths[other])])
    assert not are_parallel([pair[0], pair[0]])
    assert not are_parallel([pair[0], str(tmp_path / "train.fr")])
    raises(DataError, "train.en.*extension", find_files, pair[:1])
