"""The OpenAPI document: replies have its schemas, and whatever it allows or forbids, no status is
500 or above."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings

from bertwright.serve.app import ROUTERS
from tests.serve.conftest import EXAMPLES, MORE

REPLIES = {route.path: route.response_model for router in ROUTERS for route in router.routes}


@pytest.mark.parametrize("path", EXAMPLES)
def test_replies_have_their_schema(client: TestClient, path: str) -> None:
    reply = client.post(path, json={**EXAMPLES[path], **MORE.get(path, {})})
    assert reply.status_code == 200, reply.text
    model = REPLIES[path].model_validate(reply.json())
    assert reply.json().keys() <= model.model_dump().keys()  # nothing that the schema lacks


def test_the_document_has_the_schemas(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    for path in EXAMPLES:
        post = document["paths"][path]["post"]
        for content in (post["requestBody"], post["responses"]["200"], post["responses"]["4XX"]):
            name = content["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            assert document["components"]["schemas"][name]["properties"]


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
            kind = case.method
            body = case.body
            path = case.formatted_path
            plain = isinstance(body, (dict, list, str, int, float, bool, type(None)))
            reply = client.request(kind, path, json=body if plain else None)
            assert reply.status_code < 500, (path, reply.text)
            codes.setdefault(path, set()).add(reply.status_code)

        run()
    assert {200} == codes["/livez"]
    assert len(codes) > 15
