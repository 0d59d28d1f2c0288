"""A server says how many words of a text a model of words does not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

import bertwright
from bertwright.checkpoint.convert import convert
from tests.inference.word_vectors.sample import TEXTS, elmo, fasttext
from tests.serve.conftest import figures

ARPA = """
\\data\\
ngram 1=4

\\1-grams:
-1.0\t<unk>
-0.9\t<s>
-0.8\t</s>
-0.4\tdoor

\\end\\
"""


@pytest.fixture
def words(tmp_path: Path, full: Path, served: Callable[..., TestClient]) -> TestClient:
    """A server of word vectors, of an n-gram model, and of a BERT."""
    (tmp_path / "words.vec").write_text("door 1 0 2\nhouse 0 1 1\nU.S. 3 1 0\n")
    convert(tmp_path / "words.vec", tmp_path / "words")
    (tmp_path / "lm.arpa").write_text(ARPA)
    convert(tmp_path / "lm.arpa", tmp_path / "lm")
    models = f"words={tmp_path / 'words'}", f"lm={tmp_path / 'lm'}", f"full={full}"
    return served(model=models)


def test_unknown_words_are_counted(words: TestClient) -> None:
    texts = ["door U.S. zebra", "zebra zebra House"]
    reply = words.post("/embed", json={"model": "words", "input": texts}).json()
    assert (reply["tokens_used"], reply["unknown_words"]) == (6, 3)
    openai = words.post("/v1/embeddings", json={"model": "words", "input": texts})
    assert openai.headers["x-bertwright-unknown-words"] == "3"
    assert openai.json().keys() == {"object", "data", "model", "usage"}
    body = {"model": "lm", "input": "door zebra", "max_new_tokens": 2}
    reply = words.post("/generate", json=body).json()
    assert reply.get("unknown_words") == 1, reply
    found = figures(words.get("/metrics").text)
    assert found["unknown_words_total words"] == 6
    assert found["unknown_words_total lm"] == 1


def test_models_of_other_tokens_say_nothing_of_words(words: TestClient) -> None:
    assert "unknown_words" not in words.post("/tokenize", json={"input": "door zebra"}).json()
    body = {"model": "full", "input": "a zebra"}
    assert "unknown_words" not in words.post("/embed", json=body).json()
    headers = words.post("/v1/embeddings", json=body).headers
    assert "x-bertwright-unknown-words" not in headers
    assert "unknown_words_total full" not in figures(words.get("/metrics").text)


def test_what_spells_words_has_no_unknown_ones(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    folders = elmo(tmp_path / "elmo", ["the", "cat"]), fasttext(tmp_path / "fasttext")
    server = served(model=tuple(f"{each.name}={each}" for each in folders))
    for folder in folders:
        body = {"model": folder.name, "input": TEXTS}
        reply = server.post("/embed", json=body).json()
        expected = bertwright.load(folder).embed(TEXTS)
        np.testing.assert_allclose(reply["vectors"], expected, rtol=1e-4, atol=1e-6)
    assert reply["unknown_words"] == 0
    body = {"model": "fasttext", "input": "cat zorbled"}
    assert "zorbled" in server.post("/tokenize", json=body).text
