"""Whatever the description of the routes allows, and what it forbids: no answer of 500 or above."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings


@pytest.mark.slow
def test_no_answer_is_a_failure(client: TestClient) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    codes: dict[str, set[int]] = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        strategy = operation.as_strategy()

        @settings(max_examples=10, suppress_health_check=list(HealthCheck))
        @given(case=strategy)
        def run(case: object) -> None:
            kind = case.method  # type: ignore[attr-defined]
            body = case.body  # type: ignore[attr-defined]
            path = case.formatted_path  # type: ignore[attr-defined]
            plain = isinstance(body, (dict, list, str, int, float, bool, type(None)))
            reply = client.request(kind, path, json=body if plain else None)
            assert reply.status_code < 500, (path, reply.text)
            codes.setdefault(path, set()).add(reply.status_code)

        run()
    assert {200} == codes["/livez"]
    assert len(codes) > 15
