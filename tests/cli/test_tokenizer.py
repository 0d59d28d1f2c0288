"""`tokenizer train` and `tokenizer inspect` as a user meets them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import JsonOf, Ran
from tests.raising import assert_names

TEXT = "The winter was long. Winters are longer in the north.\nThey walked and talked.\n\n" * 5


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    """A small text file."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "text.txt")


def test_train_then_inspect(corpus: str, tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    out = str(tmp_path / "tokenizer")
    words = ["tokenizer", "train", corpus, "--out", out, "--vocab-size", "60", "--workers", "1"]
    figures = json_of(*words)
    assert figures["vocab_size"] == 60
    assert {p.name for p in Path(out).iterdir()} == {
        "vocab.txt", "tokenizer.json", "tokenizer_config.json", "training.json",
    }  # fmt: skip
    before = (Path(out) / "training.json").read_bytes()
    assert "exists already" in ran(*words, code=2).err
    printed = ran(*words[:-1], "2", "--overwrite")
    assert f"bertwright data build {corpus} --tokenizer {out} --out" in printed.err
    assert (Path(out) / "training.json").read_bytes() == before

    found = json_of("tokenizer", "inspect", "The W\u00efnter \u2603", "--tokenizer", out)
    shown = found["texts"][0]
    assert shown["normalized"] == "the winter \u2603"
    assert "\u2603 (U+2603)" in shown["words"][2]["why"]
    assert "special token" in ran("tokenizer", "inspect", "The [MASK]", "--tokenizer", out).out


def test_accents_are_said_by_train_build_and_check(
    tmp_path: Path, ran: Ran, json_of: JsonOf
) -> None:
    path, out = tmp_path / "hi.txt", tmp_path / "tokenizer"
    path.write_text("मैं घर में हूँ।\nवह घर में है।\n\n" * 40, encoding="utf-8")
    train = ["tokenizer", "train", path, "--vocab-size", "100", "--workers", "1", "--out"]
    printed = ran(*train, out).err
    assert "--strip-accents" in printed
    assert "में" in printed
    strip = tmp_path / "stripped"
    assert "--no-strip-accents" in ran(*train, strip, "--strip-accents").err
    for folder, level in ((out, None), (strip, "warning")):
        shards = tmp_path / f"shards-{folder.name}"
        build = ["data", "build", path, "--tokenizer", folder, "--out", shards, "--workers", "1"]
        assert ("--no-strip-accents" in ran(*build).out) is (folder == strip)
        found = json_of("data", "check", shards)["findings"]
        notes = [each for each in found if each["name"] == "lost_marks"]
        assert [each["level"] for each in notes] == ([level] if level else [])
        if level:
            assert notes[0]["value"] == pytest.approx(5 / 8)


def test_after_standard_input_a_file_is_named(tmp_path: Path, ran: Ran) -> None:
    words = ["tokenizer", "train", "-", "--out", tmp_path / "t", "--vocab-size", "60"]
    printed = ran(*words, stdin=TEXT.encode()).err
    assert "data build FILE --tokenizer" in printed


def test_bad_input_has_its_exit_code(corpus: str, tmp_path: Path, ran: Ran) -> None:
    out = ["--out", tmp_path / "t", "--workers", "1"]
    printed = ran("tokenizer", "train", corpus, *out, "--vocab-size", "20", code=2)
    assert_names(printed.err, "20", "alphabet")
    (tmp_path / "empty.txt").write_text("")
    ran("tokenizer", "train", tmp_path / "empty.txt", *out, code=4)
    printed = ran("tokenizer", "train", corpus, *out, "--vocab-sise", "20", code=2)
    assert "vocab-size" in printed.err
    ran("tokenizer", "train", *out, code=2)
    ran("tokenizer", "inspect", "x", "--tokenizer", tmp_path / "none", code=2)
    assert not (tmp_path / "t").exists()


def test_what_is_read_is_not_replaced(corpus: str, tmp_path: Path, ran: Ran) -> None:
    words = ["tokenizer", "train", corpus, "--out", tmp_path, "--overwrite"]
    assert "--out" in ran(*words, code=2).err
    assert Path(corpus).is_file()


def test_a_full_disk(corpus: str, tmp_path: Path, ran: Ran, monkeypatch: Any) -> None:
    write = Path.write_text

    def full(path: Path, *words: Any, **more: Any) -> int:
        if path.name == "tokenizer.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, *words, **more)

    monkeypatch.setattr(Path, "write_text", full)
    words = ["--vocab-size", "60", "--workers", "1", "--out", tmp_path / "tokenizer"]
    assert "is full" in ran("tokenizer", "train", corpus, *words, code=1).err
