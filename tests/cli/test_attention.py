"""`bertwright attention`: a page, numbers, measures, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bertwright.cli.app import run
from tests.small_bert import CONFIG, write_model

TREES = "(S (NP-SBJ (DT the) (NN cat)) (VP (VBD saw) (NP (DT the) (NN dog))) (. .))\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    config = replace(CONFIG, max_position_embeddings=99)
    return str(write_model(tmp_path_factory.mktemp("attention") / "model", (), config))


def test_a_page_and_numbers(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.html"
    words = ["attention", "--model", model, "the cat", "a dog"]
    assert run([*words, "--out", str(out), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["maps"]
    assert found["rows"][0] == "[CLS]"
    assert found["rows"].count("[SEP]") == 2
    assert len(found["weights"]) == 3
    assert "All heads" in out.read_text("utf-8")
    assert run([*words, "--out", str(out)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run([*words, "--out", str(out), "--overwrite"]) == 0


def test_measures(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts, trees = tmp_path / "texts.txt", tmp_path / "a.mrg"
    texts.write_text("the cat\n\na dog runs.\nnot this\n", "utf-8")
    trees.write_text(TREES * 20, "utf-8")
    words = ["attention", "--model", model, "--treebank", str(trees), "--coreference"]
    words += ["--corpus", str(texts), "--limit", "2"]
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["heads"]["texts"] == 2
    assert {"distance", "entropy", "itself", "previous", "next", "[CLS]", "[SEP]"} < {
        *found["heads"]
    }
    assert found["syntax"]["sentences"] == 2
    assert found["syntax"]["relations"]["all"]["count"] == 8
    assert found["coreference"]["count"] == 40
    assert run(words) == 0
    shown = capsys.readouterr().out
    assert "2 texts" in shown
    assert "it, its" in shown


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "expected one text or two"),
        (["a", "b", "c", "--json"], 2, "3 texts"),
        (["a"], 2, "where to?"),
        (["a", "--coreference"], 2, "1 text and some measure"),
        (["--coreference", "--out", "a.html"], 2, "leave it out"),
        (["--coreference", "--limit", "0"], 2, "expected 1 or more"),
        (["--corpus", "missing.txt"], 4, "no file missing.txt"),
        (["--treebank", "missing.mrg"], 4, "no file missing.mrg"),
        (["a " * 200, "--json"], 4, "more tokens than"),
    ],
)
def test_what_is_refused(
    model: str, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["attention", "--model", model, *words]) == code
    assert message in capsys.readouterr().err
