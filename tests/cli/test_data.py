"""`bertwright data build` and `bertwright data check` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertwright.cli.app import run
from bertwright.text.tokenizer import make_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    make_tokenizer([*SPECIAL, *"abcdefghij."]).save(tmp_path / "tokenizer")
    text = "".join(
        f"{a} {b} {c} {a} {b} {c} {a} {b} {c} .\n" + "\n" * (c == "j")
        for a in "abcdefghij"
        for b in "abcdefghij"
        for c in "abcdefghij"
    )
    (tmp_path / "corpus.txt").write_text(text)
    return tmp_path


def build(corpus: Path, *more: str) -> int:
    return run(
        [
            *("data", "build", str(corpus / "corpus.txt"), "--tokenizer"),
            *(str(corpus / "tokenizer"), "--out", str(corpus / "out"), "--workers", "1", *more),
        ]
    )


def test_build_and_check(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(corpus) == 0
    said = capsys.readouterr().out
    assert "100 documents, 1,000 sentences, 10,000 tokens" in said
    assert f"bertwright data check {corpus / 'out'}" in said
    assert run(["data", "check", str(corpus / "out"), "--sequence-length", "64"]) == 0
    said = capsys.readouterr().out
    assert "warning  size: 10,000 tokens are little" in said
    assert "-> expect over-fitting" in said
    assert "0 errors" in said


def test_json_is_one_object(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(corpus, "--json") == 0
    assert json.loads(capsys.readouterr().out)["counts"]["tokens"] == 10_000
    assert run(["data", "check", str(corpus / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["errors"] == 0
    assert {"level", "name", "value", "message", "advice"} == found["findings"][0].keys()


def test_errors_end_with_4(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(corpus, "--documents", "line", "--sentences", "line") == 0
    assert run(["data", "check", str(corpus / "out")]) == 4
    said = capsys.readouterr().out
    assert "error    one_sentence_documents" in said
    assert run(["data", "check", str(corpus / "out"), "--objectives", "mlm"]) == 0


def test_exit_codes_of_bad_input(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check", str(corpus)]) == 4
    assert build(corpus) == 0
    assert build(corpus) == 2
    assert "exists already" in capsys.readouterr().err
    assert build(corpus, "--overwrite", "--documentz", "line") == 2
    (corpus / "out" / "shard-00000.tokens").write_bytes(b"cut")
    assert run(["data", "check", str(corpus / "out")]) == 5
    (corpus / "corpus.txt").write_text("\n\n")
    assert build(corpus, "--overwrite") == 4
    assert (corpus / "out").is_dir()
