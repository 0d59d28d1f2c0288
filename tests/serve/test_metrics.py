"""Figures for Prometheus: each counts what its name says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from fastapi.testclient import TestClient

from bertwright.serve.metrics import ServerMetrics
from tests.serve.conftest import figures


def test_requests_and_what_a_model_read() -> None:
    metrics = ServerMetrics()
    for status, seconds in ((200, 0.5), (200, 1.5), (429, 0.25)):
        metrics.count("/embed", status, seconds)
    metrics.count("/tag", 200, 4.0)
    metrics.read("m", 7, 0)
    metrics.read("m", 5, 2)
    metrics.read("n", 1, 1)
    found = figures(metrics.text().decode())
    assert (found["requests_total /embed 200"], found["requests_total /embed 429"]) == (2, 1)
    assert found["requests_total /tag 200"] == 1
    assert found["request_seconds_sum /embed"] == 2
    assert found["request_seconds_count /embed"] == 2
    assert (found["tokens_total m"], found["tokens_total n"]) == (12, 1)
    assert (found["truncated_texts_total m"], found["truncated_texts_total n"]) == (2, 1)


def test_batches() -> None:
    metrics, batcher = ServerMetrics(), cast(Any, SimpleNamespace(waiting=[1, 2, 3], tokens=40))
    metrics.follow(batcher)
    batcher.on_batch(2, 30, 0.25)
    batcher.on_batch(1, 12, 0.5)
    batcher.on_dropped("gone")
    batcher.on_failed()
    found = figures(metrics.text().decode())
    assert (found["batch_texts_sum"], found["batch_tokens_sum"]) == (3, 42)
    assert (found["batch_seconds_sum"], found["batch_seconds_count"]) == (0.75, 2)
    assert (found["dropped_requests_total gone"], found["failed_batches_total"]) == (1, 1)
    assert (found["queue_texts"], found["queue_tokens"]) == (3, 40)


def test_what_a_server_answered(client: TestClient) -> None:
    def counted() -> dict[str, float]:
        return figures(client.get("/metrics").text)

    before = counted()
    body = {"input": ["a b", "a " * 20, "a " * 30], "truncate": True}
    assert client.post("/embed", json=body).status_code == 200
    after = counted()
    assert after["ready"] == 1
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    assert grown["requests_total /embed 200"] == 1
    assert (grown["tokens_total full"], grown["truncated_texts_total full"]) == (4 + 16 + 16, 2)
    assert (grown["batch_texts_sum"], grown["batch_tokens_sum"]) == (3, 36)
