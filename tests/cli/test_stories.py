"""`bertwright data stories` and `bertwright answer`, from made-up stories to an answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertwright.cli.app import run


def test_from_stories_to_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, words, shards = tmp_path / "one.txt", tmp_path / "words", tmp_path / "shards"
    assert run(["data", "stories", str(text), "--count", "300"]) == 0
    train = ["tokenizer", "train", str(text), "--algorithm", "word", "--vocab-size", "60"]
    assert run([*train, "--out", str(words), "--workers", "1"]) == 0
    build = ["data", "build", str(text), "--sentences", "line", "--tokenizer", str(words)]
    assert run([*build, "--out", str(shards), "--workers", "1"]) == 0
    pretrain = ["pretrain", "--model", "memory-network", "--data", str(shards), "--steps", "3"]
    out = tmp_path / "run"
    assert run([*pretrain, "--out", str(out), "--precision", "fp32"]) == 0
    asked = tmp_path / "asked.txt"
    asked.write_text("mary went to the office .\njohn went to the garden .\nwhere is mary ?\n")
    capsys.readouterr()
    assert run(["answer", str(asked), "--model", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["question"] == "where is mary ?"
    assert [sum(hop) for hop in found["attention"]] == pytest.approx([1, 1, 1], abs=1e-5)
    asked.write_text("mary went to the office .\n")
    assert run(["answer", str(asked), "--model", str(out)]) == 4
    assert "a line with a question mark" in capsys.readouterr().err
    assert run(["data", "stories", str(text), "--task", "four-facts"]) == 2
