"""`bertwright attention`: a page, numbers, measures, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import JsonOf, Ran
from tests.small_bert import CONFIG, write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    config = replace(CONFIG, max_position_embeddings=99)
    return str(write_model(tmp_path_factory.mktemp("attention") / "model", (), config))


def test_a_page_and_numbers(model: str, tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    out = tmp_path / "a.html"
    words = ["attention", "--model", model, "the cat", "a dog"]
    (found,) = json_of(*words, "--out", out)["maps"]
    assert found["rows"][0] == "[CLS]"
    assert found["rows"].count("[SEP]") == 2
    assert len(found["weights"]) == 3
    assert "All heads" in out.read_text("utf-8")
    assert "--overwrite" in ran(*words, "--out", out, code=2).err
    ran(*words, "--out", out, "--overwrite")


def test_measures(model: str, tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("the cat\n\na dog runs.\nnot this\n", "utf-8")
    words = ["attention", "--model", model, "--corpus", texts, "--limit", "2"]
    found = json_of(*words)
    assert found["heads"]["texts"] == 2
    assert {"distance", "entropy", "itself", "previous", "next", "[CLS]", "[SEP]"} < {
        *found["heads"]
    }
    assert "2 texts" in ran(*words).out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "text"),
        (["a", "b", "c", "--json"], 2, "3 texts"),
        (["a"], 2, "where to?"),
        (["a", "--corpus", "a.txt"], 2, "1 text and a corpus"),
        (["--corpus", "a.txt", "--out", "a.html"], 2, "leave it out"),
        (["--corpus", "a.txt", "--limit", "0"], 2, "expected 1 or more"),
        (["--corpus", "missing.txt"], 4, "missing.txt"),
        (["a " * 200, "--json"], 4, "more tokens than"),
    ],
)
def test_what_is_refused(model: str, words: list[str], code: int, message: str, ran: Ran) -> None:
    assert message in ran("attention", "--model", model, *words, code=code).err
