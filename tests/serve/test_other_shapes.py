"""Bodies as clients of Hugging Face and bert-as-service send them."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.serve.conftest import check_no

QUESTION = {"question": "a ?", "context": "b c d e f"}
CHOICE = {"text": "a", "choices": ["b", "c d"], "text2": "x"}
SENTENCES = {"source_sentence": "a", "sentences": ["b", "c d"]}
BLANK, TWO = "[MASK]", {"top_k": 2}
MIXED = {"task": "mixed", **TWO}
SAME: list[tuple[str, Any, Any]] = [
    ("/answer", {"input": QUESTION}, {"inputs": QUESTION}),
    ("/answer", {"input": [QUESTION] * 2}, {"inputs": [QUESTION] * 2}),
    ("/answer", {"input": QUESTION, **TWO}, {"inputs": QUESTION, "parameters": TWO}),
    ("/choose", {"input": CHOICE}, {"inputs": CHOICE}),
    ("/choose", {"input": [CHOICE, CHOICE]}, {"inputs": [CHOICE, CHOICE]}),
    ("/similarity", {"input": SENTENCES}, {"inputs": SENTENCES}),
    ("/similarity", {"input": ["a", "b"]}, {"inputs": ["a", "b"]}),
    ("/fill-mask", {"input": BLANK, **TWO}, {"inputs": BLANK, "parameters": TWO}),
    ("/classify", {"input": "a", **MIXED}, {"inputs": "a", "parameters": MIXED}),
    ("/embed", {"input": "a", "layers": [1]}, {"inputs": "a", "parameters": {"layers": [1]}}),
    ("/tag", {"input": "a b"}, {"inputs": "a b", "parameters": None}),
]


@pytest.mark.parametrize(("path", "ours", "theirs"), SAME)
def test_both_ways_give_the_same(client: TestClient, path: str, ours: Any, theirs: Any) -> None:
    expected, found = (client.post(path, json=body) for body in (ours, theirs))
    assert (expected.status_code, found.status_code) == (200, 200), found.text
    assert found.json() == expected.json()


def test_of_a_key_that_stands_twice_the_last_counts(client: TestClient) -> None:
    twice, once = (
        client.post("/tokenize", content=body)
        for body in (b'{"input": "a", "input": "b c"}', b'{"input": "b c"}')
    )
    assert (twice.status_code, twice.json()) == (200, once.json())


def test_the_likeliest_classes(client: TestClient) -> None:
    def classes(**body: Any) -> Any:
        return client.post("/classify", json={"input": "a", "task": "mixed", **body}).json()

    assert len(classes()["results"][0]) == 3
    assert classes(top_k=2)["results"][0] == classes()["results"][0][:2]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/fill-mask", {"inputs": "[MASK]", "parameters": {"targets": ["a"]}}),
        ("/fill-mask", {"inputs": "[MASK]", "parameters": {"top_k": 0}}),
        ("/fill-mask", {"inputs": "[MASK]", "parameters": [2]}),
        ("/fill-mask", {"inputs": "[MASK]", "parameters": {"parameters": {"top_k": 2}}}),
        ("/fill-mask", {"inputs": "[MASK]", "top_k": 2, "parameters": {"top_k": 2}}),
        ("/tokenize", {"inputs": "a", "parameters": {"top_k": 2}}),
        ("/embed", {"input": "a", "inputs": "b"}),
        ("/embed", {"inputs": {"text": "zebra"}}),
        ("/embed", {"inputs": {}}),
        ("/answer", {"inputs": QUESTION, "question": "zebra"}),
        ("/choose", {"text": "zebra"}),
        ("/choose", {"text2": "zebra"}),
        ("/choose", {"text": "a", "choices": ["zebra"]}),
        ("/choose", {"input": CHOICE, "text2": "zebra"}),
        ("/similarity", {"inputs": {"source_sentence": "zebra"}}),
        ("/encode", {"texts": ["a"], "id": True}),
        ("/encode", {"texts": ["a"], "id": "zebra" * 41}),
        ("/encode", {"texts": ["a"], "id": ["zebra"]}),
        ("/encode", {"texts": ["a"], "id": 2**60}),
    ],
)
def test_what_no_route_knows(client: TestClient, path: str, body: Any) -> None:
    check_no(client.post(path, json=body), 400)


@pytest.mark.parametrize("given", [0, -7, 2**53, "", "9f1c-é", "x" * 200])
def test_ids_come_back(client: TestClient, given: Any) -> None:
    assert client.post("/encode", json={"texts": ["a"], "id": given}).json()["id"] == given
