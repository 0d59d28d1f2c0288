"""The OpenAPI document: replies have its schemas, and whatever it allows or forbids, no status is
500 or above."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings

from tests.serve.conftest import EXAMPLES, MORE

jsonschema_rs = pytest.importorskip("jsonschema_rs")  # comes with schemathesis
GETS = ["/livez", "/v1/models", "/v1/models/{name}"]


def check_schema(document: dict[str, Any], operation: Any, reply: Any) -> None:
    """A reply has what the document says, and no key that it lacks."""
    assert reply.status_code == 200, reply.text
    reference = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    schema = document["components"]["schemas"][reference.rpartition("/")[2]]
    jsonschema_rs.validate({**schema, "components": document["components"]}, reply.json())
    assert reply.json().keys() <= schema["properties"].keys()


@pytest.mark.parametrize("path", EXAMPLES)
def test_replies_have_their_schema(client: TestClient, path: str) -> None:
    document = client.get("/openapi.json").json()
    reply = client.post(path, json={**EXAMPLES[path], **MORE.get(path, {})})
    check_schema(document, document["paths"][path]["post"], reply)


@pytest.mark.parametrize("path", GETS)
def test_descriptions_have_their_schema(client: TestClient, path: str) -> None:
    document = client.get("/openapi.json").json()
    reply = client.get(path.format(name="full"))
    check_schema(document, document["paths"][path]["get"], reply)


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
