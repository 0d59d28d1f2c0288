"""What is wrong is refused with a short reason that holds nothing of it, and never with 500."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from bertwright.serve.errors import invalid_request
from bertwright.serve.service import Service
from tests.serve.conftest import EXAMPLES, check_no, with_server

SECRET = "zebra zebra zebra"
LONG = " ".join("abcdefghijklmnopqrst")
BAD: list[tuple[str, Any]] = [
    ("/embed", {"input": []}),
    ("/embed", {"input": ""}),
    ("/embed", {"input": ["a", "  "]}),
    ("/embed", {"input": "zebra\0zebra"}),
    ("/embed", {"input": 7}),
    ("/embed", {"input": {"zebra": 1}}),
    ("/embed", {"input": [["a", "b", SECRET]]}),
    ("/embed", {"input": [[SECRET, 7]]}),
    ("/embed", {}),
    ("/embed", {"input": "a", SECRET: 1}),
    ("/embed", {"input": "a", "layers": [99]}),
    ("/embed", {"input": "a", "layers": [-5]}),
    ("/embed", {"input": "a", "layers": []}),
    ("/embed", {"input": "a", "layers": "zebra"}),
    ("/embed", {"input": "a", "layers": [True]}),
    ("/embed", {"input": "a", "layers": [1.5]}),
    ("/embed", {"input": "a", "pooling": SECRET}),
    ("/embed", {"input": "a", "pooling": "none"}),
    ("/embed", {"input": "a", "pooling": {}}),
    ("/embed", {"input": "a", "pooling": [SECRET]}),
    ("/embed", {"input": "a", "normalize": "yes"}),
    ("/embed", {"input": "a", "normalize": 1}),
    ("/embed", {"input": "a", "truncate": "zebra"}),
    ("/embed", {"input": "a", "layers": [1.0]}),
    ("/embed", {"input": "a", "dtype": "float64"}),
    ("/embed", {"input": LONG}),
    ("/embed", []),
    ("/embed", "a"),
    ("/embed", None),
    ("/tokens", {"input": [["a", "b"]]}),
    ("/fill-mask", {"input": SECRET}),
    ("/fill-mask", {"input": "[MASK]", "top_k": 0}),
    ("/fill-mask", {"input": "[MASK]", "model": "bare"}),
    ("/next-sentence", {"input": "a"}),
    ("/next-sentence", {"input": ["a"]}),
    ("/next-sentence", {"input": [["a", "b"], ["a"]]}),
    ("/next-sentence", {"input": [LONG, LONG]}),
    ("/next-sentence", {"input": ["a", "b"], "model": "bare"}),
    ("/classify", {"input": "a"}),
    ("/classify", {"input": "a", "model": "bare"}),
    ("/classify", {"input": "a", "task": "names"}),
    ("/classify", {"input": "a", "task": SECRET}),
    ("/tag", {"input": [["a", "b"], [SECRET, ""]]}),
    ("/tag", {"input": [["a", ["b"]]]}),
    ("/answer", {"input": {"question": SECRET}}),
    ("/answer", {"input": [{"question": "a", "context": "b", SECRET: 1}]}),
    ("/choose", {"input": {"text": "a", "choices": ["b"]}}),
    ("/choose", {"input": "a"}),
    ("/rerank", {"query": "a", "documents": []}),
    ("/rerank", {"query": "", "documents": ["a"]}),
    ("/rerank", {"query": "a", "documents": ["a"], "model": "bare"}),
    ("/v1/rerank", {"query": "a", "documents": []}),
    ("/v1/rerank", {"query": "a", "documents": [{"zebra": "a"}]}),
    ("/v1/rerank", {"query": "a", "documents": ["a"], "top_n": 0}),
    ("/v1/rerank", {"query": "a", "documents": ["a"], "task": SECRET}),
    ("/v1/rerank", {"query": "a", "documents": ["a"], "model": "bare"}),
    ("/similarity", {}),
    ("/similarity", {"input": {"source_sentence": SECRET}}),
    ("/similarity", {"source_sentence": "a", "input": ["a"]}),
    ("/attention", {"input": ["a"]}),
    ("/attention", {"input": "a", "layers": [0]}),
    ("/attention", {"input": "a", "layers": [4]}),
    ("/encode", {"texts": ["a"], "is_tokenized": True}),
    ("/encode", {"texts": ["a"], "is_tokenized": 0}),
    ("/encode", {"texts": LONG}),
    ("/v1/embeddings", {"input": []}),
    ("/v1/embeddings", {"input": [[]]}),
    ("/v1/embeddings", {"input": [1, 2]}),
    ("/v1/embeddings", {"input": [[1, 2]]}),
    ("/v1/embeddings", {"input": "a", "dimensions": 0}),
    ("/v1/embeddings", {"input": "a", "dimensions": 25}),
    ("/v1/embeddings", {"input": "a", "encoding_format": SECRET}),
    ("/v1/embeddings", {"input": "a", "model": SECRET}),
]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, "input: Input should be a valid string (A text, or texts and pairs.)"),
        ([], "input: List should have at least 1 item"),
        (["a", 7], "input, item 1: Input should be a valid string"),
    ],
)
def test_a_value_of_another_type(client: TestClient, given: object, said: str) -> None:
    assert said in client.post("/embed", json={"input": given}).json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"), [pytest.param(*each, id=f"{n} {each[0]}") for n, each in enumerate(BAD)]
)
def test_bad_bodies(client: TestClient, path: str, body: Any) -> None:
    check_no(client.post(path, content=json.dumps(body).encode()))


RAW = [
    b"",
    b"{",
    b"zebra",
    b"\xff\xfe",
    b'{"input": "\\ud800"}',
    b'{"input": "\\udc00 zebra"}',
    b'{"input": "\xed\xa0\x80"}',
    b'{"input": NaN}',
    b'{"input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"input": ' + b"[" * 900 + b'"zebra"' + b"]" * 900 + b"}",
    b'{"input": 1e999}',
    b'{"input": 123456789012345678901234567890}',
    b'{"input": [1, 123456789012345678901234567890]}',
]


@pytest.mark.parametrize("path", EXAMPLES)
@pytest.mark.parametrize("body", RAW, ids=range(len(RAW)))
def test_bodies_that_are_no_json_for_us(client: TestClient, path: str, body: bytes) -> None:
    check_no(client.post(path, content=body))


def test_unknown_model_route_and_method(client: TestClient) -> None:
    for path, example in EXAMPLES.items():
        error = check_no(client.post(path, json={**example, "model": SECRET}), 404)
        assert error["code"] == "model_not_found"
        assert "full, bare" in error["message"]
    error = check_no(client.post("/classify", json={"input": "a", "task": SECRET}), 404)
    assert error["code"] == "task_not_found"
    check_no(client.get("/zebra"), 404)
    check_no(client.get("/embed"), 405)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embed"])
def test_errors_have_openais_envelope(client: TestClient, path: str) -> None:
    error = client.post(path, json={"input": ""}).json()["error"]
    assert error["type"] == "invalid_request_error"
    assert set(error) == {"code", "message", "type", "param"}


def test_reasons(client: TestClient) -> None:
    def reason(path: str, **body: Any) -> str:
        return str(check_no(client.post(path, json=body))["message"])

    assert reason("/embed", input="a", layers=[99]).startswith("no layer 99: this model has 0")
    assert reason("/fill-mask", input="[MASK]", model="bare") == (
        "bare has no masked_lm head; it has: the encoder alone; request a model that has one: full"
    )
    assert reason("/tag", input="a", model="bare").startswith("bare has no tagging head")
    assert "several tasks; name one as task: mood, mixed, score" in reason("/classify", input="a")
    assert reason("/fill-mask", input="a") == "input 0 has no [MASK]"
    assert reason("/embed", input=None).startswith("input is missing")
    pairs = reason("/rerank", query="a", documents=["b"], model="bare")
    assert pairs.endswith("request a model that has one: full")
    assert reason("/answer", input={"question": "a"}).startswith("input: context is missing")
    assert reason("/embed", input=["a", " "]).endswith("item 1: expected text that is not empty")


def test_a_reason_is_short_however_much_it_names() -> None:
    assert invalid_request("x" * 1000).message == "x" * 1000
    assert invalid_request("x" * 1001).message == "x" * 997 + "..."


def test_a_string_of_ten_megabytes(client: TestClient) -> None:
    error = check_no(client.post("/embed", json={"input": "zebra " * 1_700_000}), 413)
    assert error["code"] == "too_large"


def test_a_length_that_is_too_large_is_refused_before_the_body(full: Path) -> None:
    """A body of 10^12 bytes that never comes would take `--body-seconds` to refuse."""

    async def never() -> AsyncIterator[bytes]:
        await asyncio.sleep(600)
        yield b""

    async def test(client: httpx.AsyncClient, service: Service) -> None:
        headers = {"content-length": str(10**12), "content-type": "application/json"}
        reply = await client.post("/embed", content=never(), headers=headers)
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large")

    with_server(test, full)


def test_bounds(served: Callable[..., TestClient]) -> None:
    client = served(max_items=2, max_characters=100, max_tokens=30, max_body_bytes=4000)

    def code(body: Any, path: str = "/embed") -> Any:
        return check_no(client.post(path, json=body), 413)["code"]

    check_no(client.post("/embed", json={"input": "a", "model": "other"}), 404)  # of one model too
    three = ["a", "b", "c"]
    assert code({"input": three}) == "too_many_items"
    assert code({"query": "a", "documents": three}, "/rerank") == "too_many_items"
    assert (
        code({"input": {"source_sentence": "a", "sentences": three}}, "/similarity")
        == "too_many_items"
    )
    assert code({"input": {"text": "a", "choices": three}}, "/choose") == "too_many_items"
    for body, path in (
        ({"input": "a" * 101}, "/embed"),
        ({"texts": ["a" * 101]}, "/encode"),
        ({"input": [["a" * 60, "b" * 41]]}, "/embed"),
        ({"query": "a" * 60, "documents": ["b" * 41]}, "/rerank"),
        ({"input": {"source_sentence": "a" * 60, "sentences": ["b" * 41]}}, "/similarity"),
        ({"input": [{"question": "a" * 60, "context": "b" * 41}]}, "/answer"),
    ):
        assert code(body, path) == "too_many_characters"
    assert code({"input": "a b c d " * 8, "windows": True}) == "too_many_tokens"
    assert code({"input": ["a " * 13, "a " * 14]}) == "too_many_tokens"
    assert client.post("/embed", json={"input": ["a " * 13, "a " * 13]}).status_code == 200
    assert code({"input": "a" * 4000}) == "too_large"
    assert client.post("/embed", json={"input": ["a", "b"]}).status_code == 200


def test_deadlines_asked_for(client: TestClient) -> None:
    for wrong in ("zebra", "0", "-1", "inf", "nan"):
        reply = client.post("/embed", json={"input": "a"}, headers={"X-Timeout": wrong})
        check_no(reply, 400)
    reply = client.post("/embed", json={"input": "a"}, headers={"X-Timeout": "20"})
    assert reply.status_code == 200


def test_keys(served: Callable[..., TestClient], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# for the team\nfirst-key\n\nsecond-key\n")
    client = served(api_keys=str(tmp_path / "keys"))
    for header in ({}, {"Authorization": "Bearer zebra"}, {"Authorization": "Basic first-key"}):
        error = check_no(client.post("/embed", json={"input": "a"}, headers=header), 401)
        assert error["code"] == "unauthorized"
    check_no(client.get("/v1/models"), 401)
    for key in ("first-key", "second-key"):
        header = {"Authorization": f"Bearer {key}"}
        assert client.post("/embed", json={"input": "a"}, headers=header).status_code == 200
    for path in ("/livez", "/metrics", "/docs", "/docs/swagger-ui.css", "/playground/icon.svg"):
        assert client.get(path).status_code == 200


def test_no_other_site_may_ask(client: TestClient) -> None:
    reply = client.get("/v1/models", headers={"Origin": "https://example.org"})
    assert "access-control-allow-origin" not in reply.headers
    assert client.options("/embed").status_code == 405
