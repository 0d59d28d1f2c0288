"""What a request made is free as soon as its reply is sent: cycles are left to the collector, which
stops all other requests while it frees those of thousands."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from bertwright.serve import calls
from bertwright.serve.preparing import Prepared, prepare
from tests.serve.conftest import EXAMPLES, MORE


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Prepared[Any]]]]:
    """What was prepared, while nothing is collected."""
    made: list[weakref.ref[Prepared[Any]]] = []

    def remember(*args: Any) -> Prepared[Any]:
        found = prepare(*args)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(calls, "prepare", remember)
    gc.disable()
    yield made
    gc.enable()


@pytest.mark.parametrize("path", EXAMPLES)
def test_a_request_is_free_after_its_reply(
    client: TestClient, prepared: list[weakref.ref[Prepared[Any]]], path: str
) -> None:
    reply = client.post(path, json={**EXAMPLES[path], **MORE.get(path, {})})
    assert reply.status_code == 200, reply.text
    assert prepared
    until = time.monotonic() + 5
    while any(each() for each in prepared) and time.monotonic() < until:
        time.sleep(0.01)  # its thread may still hold it
    assert [each() for each in prepared] == [None] * len(prepared)
