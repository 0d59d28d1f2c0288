"""Targets of a generation task, served: those of `Model.predict`, whole or streamed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient

from bertwright.config.generation import GenerationConfig
from bertwright.inference.model import Model, load
from bertwright.serve.engine.generation.flight import Piece
from bertwright.serve.routes.text2text import StrippedTexts
from bertwright.tasks.predictions import GenerationPrediction
from tests.serve.conftest import ask, check_no, streamed

SOURCES = ["a b c", "the d. e f g", "z", "a b c", "x y the the z"]


@pytest.fixture(scope="module")
def model(writer: Path) -> Model:
    return load(writer, device="cpu")


def predict(model: Model, sources: list[str], **options: Any) -> list[GenerationPrediction]:
    given = {"max_new_tokens": 12, **options}
    found = model.predict(sources, generation=GenerationConfig(**given))
    return cast(list[GenerationPrediction], found)


def write(client: TestClient, **body: Any) -> dict[str, Any]:
    return ask(client, "/text2text", model="writer", **body)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_new_tokens": 3},
        {"beam": 3, "num": 2, "length_penalty": 0.5},
        {"sample": True, "num": 3, "seed": 7, "temperature": 1.5, "top_k": 9},
        {"repetition_penalty": 1.5},
    ],
)
def test_targets_are_the_librarys(client: TestClient, model: Model, options: Any) -> None:
    known = [[each.text, *each.others] for each in predict(model, SOURCES, **options)]
    assert len({texts[0] for texts in known}) > 2
    found = write(client, input=SOURCES, **options)
    assert [[each["text"] for each in texts] for texts in found["results"]] == known
    assert found["task"] == "own"
    made = sum(each["tokens"] for texts in found["results"] for each in texts)
    assert found["tokens_generated"] == made
    *events, last = streamed(client, "/text2text", input=SOURCES, **options, model="writer")
    texts: dict[tuple[int, int], str] = {}
    for event in events:
        key = event["prompt"], event["number"]
        texts[key] = texts.get(key, "") + event["text"]
    assert texts == {(p, n): text for p, row in enumerate(known) for n, text in enumerate(row)}
    assert (last["task"], last["tokens_generated"]) == ("own", made)


def test_many_requests_at_once(client: TestClient, model: Model) -> None:
    known = [each.text for each in predict(model, SOURCES * 3)]
    beams = [each.text for each in predict(model, SOURCES * 3, beam=2)]

    def one(n: int) -> str:
        options = {"beam": 2} if n % 2 else {}
        ((found,),) = write(client, input=(SOURCES * 3)[n], **options)["results"]
        text: str = found["text"]
        return text

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(15)))
    assert found == [beams[n] if n % 2 else known[n] for n in range(15)]


def test_what_cannot_be(client: TestClient) -> None:
    error = check_no(client.post("/text2text", json={"input": "a", "model": "gpt"}), 400)
    assert error["code"] == "no_head"
    assert error["message"].endswith("request a model that has one: writer")
    error = check_no(client.post("/generate", json={"input": "a", "model": "writer"}), 400)
    assert error["message"].endswith("request a model that has one: gpt")
    for more in ({"num": 2}, {"beam": 2, "num": 3}, {"top_k": 2}, {"beam": 2, "sample": True}):
        body = {"input": "a", "model": "writer", **more}
        assert check_no(client.post("/text2text", json=body), 400)["code"] == "bad_request"
    body = {"input": "a", "model": "writer", "task": "other"}
    assert check_no(client.post("/text2text", json=body), 404)["code"] == "task_not_found"


def test_a_long_source_is_truncated_if_requested(client: TestClient, model: Model) -> None:
    long = " ".join("abcdefghijkl")
    body = {"input": ["a", long], "model": "writer"}
    assert check_no(client.post("/text2text", json=body), 400)["code"] == "too_long"
    found = write(client, input=["a", long], truncate=True)
    assert found["truncated"] == [{"input": 1, "tokens_cut": 12 - (24 - 12 - 3)}]
    assert found["results"][1][0]["text"] == predict(model, [long])[0].text


def test_events_have_no_blanks_around_a_text() -> None:
    text_of = StrippedTexts()
    pieces = [" ", " two", " words ", " ", "end", " "]
    shown = [text_of(Piece(0, 0, text, [], None)) for text in pieces]
    assert shown == ["", "two", " words", "", "  end", ""]
