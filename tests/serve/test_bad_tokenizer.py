"""A tokenizer that fails, or does not end: one request is lost, or the server says that it is."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from bertwright.errors import DataError
from bertwright.serve import calls
from bertwright.serve.engine.loading import load_engine
from bertwright.serve.service import MOST_APART, Service
from bertwright.text.tokenizer import apart
from tests.serve.conftest import with_server

PANICS = "ж" * 40 + "a"


def with_expression(folder: Path, out: Path, expression: str) -> Path:
    """A copy of a model whose words are split at an expression."""
    shutil.copytree(folder, out)
    (out / "MANIFEST.json").unlink(missing_ok=True)
    path = out / "tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    pattern = {"Regex": expression}
    rule = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    path.write_text(json.dumps({**content, "pre_tokenizer": rule}), "utf-8")
    return out


@pytest.mark.slow
@pytest.mark.parametrize("filler", [0, 2000], ids=["small", "large"])
def test_a_panic_fails_one_request(
    full: Path, tmp_path: Path, served: Callable[..., TestClient], filler: int
) -> None:
    folder = with_expression(full, tmp_path / "m", "(ж+)+$")
    client = served(model=(f"m={folder}",))
    good = {"input": "a b", "user": ""}
    for route in ("/embed", "/tokens", "/similarity", "/v1/embeddings"):
        body = {"input": PANICS + " " * filler}
        reply = client.post(route, json=body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "not_readable")
        assert "ж" not in reply.text
    for _ in range(3):
        assert client.post("/v1/embeddings", json=good).status_code == 200
    assert client.get("/readyz").status_code == 200


def test_slow_texts_stop_no_other_model_and_no_end(
    full: Path, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_expression(full, tmp_path / "m", "(?:(?:a+)+)+b")
    slow = {"input": "a" * 20_000 + " b", "model": "slow", "truncate": True}

    async def test(client: httpx.AsyncClient, service: Service) -> None:
        ready = await client.post("/embed", json={"input": "a", "model": "slow"})
        assert ready.status_code == 200
        monkeypatch.setattr(apart, "SECONDS", 0.2)
        reply = await client.post("/embed", json=slow)
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "too_slow")
        assert "aaa" not in reply.text
        monkeypatch.setattr(apart, "SECONDS", 600)
        waiting = [asyncio.create_task(client.post("/embed", json=slow)) for _ in range(18)]
        while service.apart_calls < MOST_APART:
            await asyncio.sleep(0.01)
        quick = await client.post("/embed", json={"input": "a", "model": "good"})
        assert quick.status_code == 200
        assert service.is_ready
        # the server's end does not wait for the time limit of these texts
        await service.stop()
        replies = await asyncio.gather(*waiting)
        assert {reply.status_code for reply in replies} == {400, 429}

    with_server(test, f"good={bare}", f"slow={folder}")


class Panic(BaseException):
    """As Rust's."""


@pytest.mark.parametrize("size", [1, 2000])
def test_any_failure_of_a_thread_fails_one_request(
    full: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    real = calls.vector_items

    def broken(engine: Any, texts: Any, *given: Any) -> Any:
        if texts[0][0] == "z":
            raise Panic("zebra")
        return real(engine, texts, *given)

    async def test(client: httpx.AsyncClient, service: Service) -> None:
        monkeypatch.setattr(calls, "vector_items", broken)
        bodies = [{"input": letter + " " * size} for letter in "azbz"]
        replies = await asyncio.gather(*(client.post("/embed", json=body) for body in bodies))
        assert [reply.status_code for reply in replies] == [200, 500, 200, 500]
        assert "zebra" not in replies[1].text
        assert service.is_ready

    with_server(test, full)


@pytest.mark.parametrize("size", [1, 2000])
def test_a_thread_that_does_not_end_ends_the_server(
    full: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    end, ended = threading.Event(), []

    async def test(client: httpx.AsyncClient, service: Service) -> None:
        service.on_end = lambda: ended.append(True)
        monkeypatch.setattr(calls, "vector_items", lambda *_: end.wait(60))
        reply = await client.post("/embed", json={"input": "a" + " " * size})
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "failing")
        assert (await client.get("/readyz")).json() == {"ready": False, "why": "failing"}
        assert service.is_busy

    try:
        with_server(test, full, batch_timeout=0.5)
    finally:
        end.set()
    assert ended == [True]


def test_such_a_model_is_not_loaded(full: Path, tmp_path: Path) -> None:
    folder = with_expression(full, tmp_path / "m", "(a+)+$")
    with pytest.raises(DataError, match="mend the regular expressions"):
        load_engine("m", str(folder))
