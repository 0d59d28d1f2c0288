"""`bertwright data stories` and `bertwright answer`, from made-up stories to an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import JsonOf, Ran


def test_from_stories_to_answers(tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    text, words, shards = tmp_path / "one.txt", tmp_path / "words", tmp_path / "shards"
    ran("data", "stories", "--out", text, "--count", "300")
    train = ["tokenizer", "train", text, "--algorithm", "word", "--vocab-size", "60"]
    ran(*train, "--out", words, "--workers", "1")
    build = ["data", "build", text, "--sentences", "line", "--tokenizer", words]
    ran(*build, "--out", shards, "--workers", "1")
    pretrain = ["pretrain", "--model", "memory-network", "--data", shards, "--steps", "3"]
    out = tmp_path / "run"
    ran(*pretrain, "--out", out, "--precision", "fp32")
    asked = tmp_path / "asked.txt"
    asked.write_text("mary went to the office .\njohn went to the garden .\nwhere is mary ?\n")
    found = json_of("answer", asked, "--model", out)
    assert found["question"] == "where is mary ?"
    assert [sum(hop) for hop in found["attention"]] == pytest.approx([1, 1, 1], abs=1e-5)
    asked.write_text("mary went to the office .\n")
    assert "question mark" in ran("answer", asked, "--model", out, code=4).err
    ran("data", "stories", "--out", text, "--task", "four-facts", code=2)
