"""`tokenizer train` and `tokenizer inspect` as a user meets them."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bertwright.cli.app import run

TEXT = "The winter was long. Winters are longer in the north.\nThey walked and talked.\n\n" * 5


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    """A small text file."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "text.txt")


def test_train_then_inspect(corpus: str, tmp_path: Path, capsys: Any) -> None:
    out = str(tmp_path / "tokenizer")
    words = ["tokenizer", "train", corpus, "--out", out, "--vocab-size", "60", "--workers", "1"]
    assert run([*words, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["vocab_size"] == 60
    assert {p.name for p in Path(out).iterdir()} == {
        "vocab.txt", "tokenizer.json", "tokenizer_config.json", "training.json",
    }  # fmt: skip
    before = (Path(out) / "training.json").read_bytes()
    assert run(words) == 2
    assert "exists already" in capsys.readouterr().err
    assert run([*words[:-1], "2", "--overwrite"]) == 0
    assert (
        f"Next: bertwright data build {corpus} --tokenizer {out} --out" in capsys.readouterr().err
    )
    assert (Path(out) / "training.json").read_bytes() == before

    capsys.readouterr()
    assert (
        run(["tokenizer", "inspect", "The W\u00efnter \u2603", "--tokenizer", out, "--json"]) == 0
    )
    shown = json.loads(capsys.readouterr().out)["texts"][0]
    assert shown["normalized"] == "the winter \u2603"
    assert shown["words"][2]["unknown"] == "not in the alphabet: \u2603 (U+2603)"
    assert run(["tokenizer", "inspect", "The [MASK]", "--tokenizer", out]) == 0
    assert "special token" in capsys.readouterr().out


def test_bad_input_has_its_exit_code(corpus: str, tmp_path: Path, capsys: Any) -> None:
    out = ["--out", str(tmp_path / "t"), "--workers", "1"]
    assert run(["tokenizer", "train", corpus, *out, "--vocab-size", "20"]) == 2
    assert "the alphabet alone needs" in capsys.readouterr().err
    (tmp_path / "empty.txt").write_text("")
    assert run(["tokenizer", "train", str(tmp_path / "empty.txt"), *out]) == 4
    assert run(["tokenizer", "train", corpus, *out, "--vocab-sise", "20"]) == 2
    assert "vocab-size" in capsys.readouterr().err
    assert run(["tokenizer", "train", *out]) == 2
    assert run(["tokenizer", "inspect", "x", "--tokenizer", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "t").exists()


def test_what_is_read_is_not_replaced(corpus: str, tmp_path: Path, capsys: Any) -> None:
    words = ["tokenizer", "train", corpus, "--out", str(tmp_path), "--overwrite"]
    assert run(words) == 2
    assert "choose another --out" in capsys.readouterr().err
    assert Path(corpus).is_file()


def test_malformed_bytes_are_reported(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "bad.txt").write_bytes(TEXT.encode() + b"caf\xe9 noir.\n")
    words = ["tokenizer", "train", str(tmp_path / "bad.txt"), "--vocab-size", "60"]
    words += ["--workers", "1", "--out", str(tmp_path / "tokenizer"), "--overwrite"]
    assert run(words) == 0
    said = capsys.readouterr().out
    assert "1 malformed byte sequences replaced" in said
    assert f"malformed: {tmp_path / 'bad.txt'}, byte" in said
    assert run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"]["invalid_utf8"] == 1


def test_a_full_disk(corpus: str, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    write = Path.write_text

    def full(path: Path, *words: Any, **more: Any) -> int:
        if path.name == "tokenizer.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, *words, **more)

    monkeypatch.setattr(Path, "write_text", full)
    words = ["--vocab-size", "60", "--workers", "1", "--out", str(tmp_path / "tokenizer")]
    assert run(["tokenizer", "train", corpus, *words]) == 1
    assert "is full" in capsys.readouterr().err
