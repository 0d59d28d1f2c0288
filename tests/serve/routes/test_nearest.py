"""`/nearest`: the words nearest to a word, of models whose vectors are of words."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from bertwright.inference.model import Model, load
from tests.inference.word_vectors.sample import fasttext
from tests.serve.conftest import ask, check_no


def test_neighbours_are_those_of_the_library(client: TestClient, words: Path) -> None:
    reply = ask(client, "/nearest", model="words", input=["bank", "Shore"], top_k=2)
    model = load(words, device="cpu")
    for found, word in zip(reply["results"], ("bank", "Shore"), strict=True):
        expected = model.most_similar(word, 2)
        assert [each["word"] for each in found] == [near for near, _ in expected]
        assert [each["cosine"] for each in found] == pytest.approx([c for _, c in expected])
    (whole,) = ask(client, "/nearest", model="words", input="bank")["results"]
    assert [each["word"] for each in whole] == ["shore", "money", "U.S."]
    assert whole[-1]["cosine"] == pytest.approx(-1)


def test_a_word_that_is_spelled_has_neighbours(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    """fastText makes the vectors of words outside its vocabulary from their n-grams."""
    folder = fasttext(tmp_path / "fasttext")
    server = served(model=(f"own={folder}",))
    (found,) = ask(server, "/nearest", input="zorbled", top_k=3)["results"]
    expected = load(folder, device="cpu").most_similar("zorbled", 3)
    assert [each["word"] for each in found] == [word for word, _ in expected]


def test_what_has_no_neighbours(client: TestClient) -> None:
    error = check_no(client.post("/nearest", json={"model": "full", "input": "a"}), 400)
    assert error["code"] == "no_words"
    body: dict[str, Any] = {"model": "words", "input": ["bank", "zebra"]}
    error = check_no(client.post("/nearest", json=body), 400)
    assert error["code"] == "unknown_word"
    assert "input 1" in error["message"]
    for wrong in ({"top_k": 0}, {"top_k": 1001}, {"input": ["bank"] * 33}, {"input": []}):
        check_no(client.post("/nearest", json={**body, **wrong}))
    listed = client.get("/v1/models").json()["data"]
    assert [each["id"] for each in listed if each["words"]] == ["words"]


def test_the_table_is_made_once_and_beside_the_event_loop(
    words: Path, served: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, threads, tables = served(model=(f"own={words}",)), [], set()
    most_similar = Model.most_similar

    def seen(model: Model, *given: Any) -> list[tuple[str, float]]:
        threads.append(threading.current_thread().name)
        found = most_similar(model, *given)
        tables.add(id(model._words))
        return found

    monkeypatch.setattr(Model, "most_similar", seen)
    for word in ("bank", "shore", "money"):
        ask(server, "/nearest", input=word)
    assert len(threads) == 3
    assert all(name.startswith("side") for name in threads)
    assert len(tables) == 1
