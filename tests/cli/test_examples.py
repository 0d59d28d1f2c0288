"""What a newcomer types: the examples of `--help`, `help`, completion, and mistakes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from bertwright.cli.app import VERBS, make_app, run
from bertwright.cli.examples import EXAMPLES, epilogue
from bertwright.cli.reading import read

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("verb", VERBS)
def test_three_examples_that_are_understood(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shards").mkdir()
    monkeypatch.chdir(tmp_path)
    assert len({*EXAMPLES[verb]}) == 3
    for example in EXAMPLES[verb]:
        words = [*verb.split(), *shlex.split(example)]
        read(make_app(words=words), words)
    assert max(map(len, epilogue(verb).splitlines())) < 80  # none is broken into two


def test_they_stand_in_the_help_and_help_is_a_verb(capsys: Captured) -> None:
    assert run(["fill", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Examples:\n  bertwright fill --model" in shown
    assert run(["help", "fill"]) == 0
    assert capsys.readouterr().out == shown
    assert run(["help"]) == 0
    assert "Commands" in capsys.readouterr().out


def test_completion_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["--install-completion", "--shell", "bash"]) == 0
    assert str(tmp_path) in capsys.readouterr().out
    scripts = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("finetune" in path.read_text() for path in scripts)


def test_the_missing_folder_before_the_missing_length(tmp_path: Path, capsys: Captured) -> None:
    words = ["pretrain", "--data", str(tmp_path / "none"), "--out", str(tmp_path / "run")]
    assert run(words) == 4
    assert "none; make it with: bertwright data build" in capsys.readouterr().err
    assert run([*words, "--help"]) == 0


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["pretrain", "--data", ".", "--optimizer.lr", "1"], "'optimizer.learning_rate'"),
        (["pretrain", "--data", ".", "--lr", "1"], "--optimizer.learning-rate"),
        (["finetune", "span", "--lr", "1"], "--learning-rate"),
        (["finetune", "span", "--bs", "1"], "--batch-size"),
    ],
)
def test_short_names_of_other_tools(words: list[str], meant: str, capsys: Captured) -> None:
    assert run(words) == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


NO_TEXT = {
    "a.pdf": (b"%PDF-1.4\n", "pdftotext"),
    "a.xlsx": (b"PK\x03\x04", "as CSV"),
    "a.docx": (b"PK\x03\x04", "plain text"),
}


@pytest.mark.parametrize("name", NO_TEXT)
def test_files_of_other_programs(name: str, tiny: Path, tmp_path: Path, capsys: Captured) -> None:
    content, advice = NO_TEXT[name]
    path = tmp_path / name
    path.write_bytes(content)
    assert run(["tokenizer", "train", str(path), "--out", str(tmp_path / "out")]) == 4
    assert advice in capsys.readouterr().err
    words = ["--model", str(tiny), "--train", str(path), "--out", str(tmp_path / "run")]
    assert run(["finetune", "classification", *words]) == 4
    assert advice in capsys.readouterr().err


def test_a_model_without_its_tokenizer(tiny: Path, tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((tiny / name).read_bytes())
    words = ["--model", str(folder), "--train", "x.tsv", "--out", str(tmp_path / "run")]
    assert run(["finetune", "classification", *words]) == 4
    error = capsys.readouterr().err
    assert "put its tokenizer.json or vocab.txt beside it" in error
    assert "train" not in error
