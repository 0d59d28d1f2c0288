"""What a request made is free as soon as it is answered: cycles are left to the collector, which
stops all other requests while it frees those of thousands."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from bertwright.serve import service
from bertwright.serve.app import ROUTES
from bertwright.serve.requests import Plan, make_plan


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Plan]]]:
    """The plans of requests, while nothing is collected."""
    made: list[weakref.ref[Plan]] = []

    def remember(*args: Any) -> Plan:
        plan = make_plan(*args)
        made.append(weakref.ref(plan))
        return plan

    monkeypatch.setattr(service, "make_plan", remember)
    gc.disable()
    yield made
    gc.enable()


@pytest.mark.parametrize("route", ROUTES, ids=[route.path for route in ROUTES])
def test_a_plan_is_free_after_its_reply(
    client: TestClient, plans: list[weakref.ref[Plan]], route: Any
) -> None:
    task = {"task": "mood"} if route.path == "/classify" else {}  # the model has several
    reply = client.post(route.path, json={**route.shape.example, **task})
    assert reply.status_code == 200, reply.text
    assert plans
    until = time.monotonic() + 5
    while any(plan() for plan in plans) and time.monotonic() < until:
        time.sleep(0.01)  # its thread may still hold it
    assert [plan() for plan in plans] == [None] * len(plans)
