"""Bodies are parsed beside the event loop where they are large, and judged alike where not."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel

from bertwright.serve.http import bodies

FILLER = " " * bodies.SMALL


def test_large_bodies_are_parsed_in_a_thread(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    real = bodies.parse

    def seen(schema: type[BaseModel], content: bytes) -> BaseModel:
        threads.append(threading.current_thread().name)
        return real(schema, content)

    monkeypatch.setattr(bodies, "parse", seen)
    for filler in ("", FILLER):
        assert client.post("/embed", json={"input": "a" + filler}).status_code == 200
    small, large = threads
    assert "side" not in small
    assert large.startswith("side")


@pytest.mark.parametrize(
    "body",
    [
        {"input": 7},
        {"input": ["a", " "]},
        {"input": "a", "zebra": 1},
        {},
        [],
        {"input": "a", "layers": [1.5]},
        {"input": "a", "pooling": "zebra"},
    ],
)
def test_large_and_small_bodies_are_refused_alike(client: TestClient, body: Any) -> None:
    content = json.dumps(body)
    small, large = (client.post("/embed", content=text) for text in (content, content + FILLER))
    assert small.status_code == large.status_code == 400
    assert small.json() == large.json()
    assert "zebra" not in small.text


def test_any_content_type_is_json(client: TestClient) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", "application/json; a=b"):
        reply = client.post("/embed", content=b'{"input": "a"}', headers={"content-type": kind})
        assert reply.status_code == 200, reply.text


def test_a_validated_body_is_not_validated_again() -> None:
    class Counted(BaseModel):
        value: int

    made = bodies.parse(Counted, b'{"value": 1}')
    assert Counted.model_validate(made) is made
