"""What a newcomer types: the examples of `--help`, `help`, completion, and mistakes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from bertwright.cli.app import VERBS, make_app
from bertwright.cli.examples import epilogue, examples
from bertwright.cli.reading import read
from tests.cli.conftest import Ran
from tests.raising import assert_names


@pytest.mark.parametrize("verb", VERBS)
def test_its_examples_are_understood(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shards").mkdir()
    monkeypatch.chdir(tmp_path)
    assert len(examples(verb)) >= (2 if verb == "info" else 3)
    for example in examples(verb):
        words = shlex.split(example)[1:]
        read(make_app(words=words), words)
    assert max(map(len, epilogue(verb).splitlines())) < 80  # none is broken into two


def test_they_stand_in_the_help_and_help_is_a_verb(ran: Ran) -> None:
    shown = ran("fill", "--help").out
    assert "Examples:\n  bertwright fill --model" in shown
    assert ran("help", "fill").out == shown
    assert ran("help").out == ran("--help").out


def test_completion_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(tmp_path) in ran("--install-completion", "--shell", "bash").out
    scripts = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("finetune" in path.read_text() for path in scripts)


def test_the_missing_folder_before_the_missing_length(tmp_path: Path, ran: Ran) -> None:
    words = ["pretrain", "--data", tmp_path / "none", "--out", tmp_path / "run"]
    assert_names(ran(*words, code=4).err, tmp_path / "none", "bertwright data build")
    ran(*words, "--help")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["pretrain", "--data", ".", "--optimizer.lr", "1"], "--optimizer.learning-rate"),
        (["pretrain", "--data", ".", "--lr", "1"], "--optimizer.learning-rate"),
        (["finetune", "span", "--lr", "1"], "--learning-rate"),
        (["finetune", "span", "--bs", "1"], "--batch-size"),
    ],
)
def test_short_names_of_other_tools(words: list[str], meant: str, ran: Ran) -> None:
    assert meant in ran(*words, code=2).err


NO_TEXT = {
    "a.pdf": (b"%PDF-1.4\n", "pdftotext"),
    "a.xlsx": (b"PK\x03\x04", "CSV"),
    "a.docx": (b"PK\x03\x04", "plain text"),
}


@pytest.mark.parametrize("name", NO_TEXT)
def test_files_of_other_programs(name: str, tiny: Path, tmp_path: Path, ran: Ran) -> None:
    content, advice = NO_TEXT[name]
    path = tmp_path / name
    path.write_bytes(content)
    assert advice in ran("tokenizer", "train", path, "--out", tmp_path / "out", code=4).err
    words = ["--model", tiny, "--train", path, "--out", tmp_path / "run"]
    assert advice in ran("finetune", "classification", *words, code=4).err


def test_a_model_without_its_tokenizer(tiny: Path, tmp_path: Path, ran: Ran) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((tiny / name).read_bytes())
    (tmp_path / "rows.tsv").write_text("text\tlabel\na\tx\nb\ty\n", encoding="utf-8")
    words = ["--model", folder, "--train", tmp_path / "rows.tsv", "--out", tmp_path / "run"]
    error = ran("finetune", "classification", *words, code=4).err
    assert_names(error, "tokenizer.json", "vocab.txt")
    assert "rows.tsv" not in error
