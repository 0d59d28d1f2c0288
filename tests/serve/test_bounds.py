"""What would be too much is refused before any of it is made: by tokens, by what would be sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from bertwright.inference.fill import Blanks
from bertwright.serve import limits
from bertwright.serve.engine import items
from bertwright.serve.errors import HttpError
from tests.serve.conftest import check_no

BLANKS = "[MASK] " * 20_000


def refused(client: TestClient, path: str, **body: Any) -> str:
    return str(check_no(client.post(path, json=body))["code"])


@pytest.mark.parametrize(
    ("truncate", "code"), [(False, "too_long"), (True, "too_many_tokens")], ids=["refuse", "cut"]
)
def test_many_blanks_are_refused_at_once(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, truncate: bool, code: str
) -> None:
    monkeypatch.delattr(Blanks, "sequences")
    started = time.monotonic()
    assert refused(client, "/fill-mask", input=BLANKS, truncate=truncate) == code
    assert time.monotonic() - started < 3  # 10 s where each blank is looked for among all windows


def test_texts_that_are_read_often_count_as_often(
    client: TestClient, served: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    task_data = items.TaskData

    def counted(*given: Any) -> Any:
        made.append(given)
        return task_data(*given)

    monkeypatch.setattr(items, "TaskData", counted)
    small = served(max_tokens=100, max_characters=10_000)
    long = "a " * 90
    assert refused(small, "/rerank", query=long, documents=["b"] * 1000) == "too_many_tokens"
    assert refused(small, "/classify", input=["a b c"] * 1000, task="mood") == "too_many_tokens"
    assert len(made) <= 25
    made.clear()
    many = {"text": "a " * 40, "choices": ["b"] * 200}
    assert refused(small, "/choose", input=many) == "too_many_characters"
    swapped = {"text": "a", "text2": many["text"], "choices": many["choices"]}
    assert refused(small, "/choose", input=swapped) == "too_many_characters"
    assert refused(small, "/choose", input={**many, "choices": ["b"] * 9}) == "too_many_tokens"
    word = "a" * 3000
    assert refused(small, "/rerank", query=word, documents=["b"] * 5) == "too_many_characters"
    for path in ("/tag", "/tokenize"):
        assert refused(small, path, input="a " * 101) == "too_many_tokens"
    assert (
        refused(small, "/answer", input={"question": "a", "context": "a " * 101})
        == "too_many_tokens"
    )
    assert len(made) <= 3  # of /rerank's documents, those within the bound


NUMBERS: list[tuple[str, Any, int]] = [
    ("/embed", {"input": ["a"] * 3}, 3 * 24),
    ("/embed", {"input": "a", "layers": [0, 1, 3], "pooling": "mean-max"}, 3 * 2 * 24),
    ("/embed", {"input": "a " * 40, "windows": True}, 24),
    ("/encode", {"texts": ["a", "b"]}, 2 * 24),
    ("/v1/embeddings", {"input": ["a", "b"], "dimensions": 3}, 2 * 3),
    ("/tokens", {"input": ["a b", "c"], "layers": [1, 2]}, 7 * 2 * 24),
    ("/tokens", {"input": "a " * 40, "windows": True}, 42 * 24),
    ("/similarity", {"input": ["a"] * 30}, 30 * 30),
    ("/similarity", {"input": {"source_sentence": "a", "sentences": ["b"] * 30}}, 31 * 24),
    ("/attention", {"input": "a b c", "layers": [1, 3]}, 2 * 4 * 5 * 5),
]
CHARACTERS: list[tuple[str, Any, int]] = [
    ("/fill-mask", {"input": ["[MASK] a [MASK]", "[MASK]"], "top_k": 7}, 7 * (2 * 79 + 70)),
    ("/fill-mask", {"input": "[MASK]", "top_k": 100}, 37 * 70),
    ("/classify", {"input": ["a"] * 5, "task": "mixed"}, 5 * 3 * 65),
    ("/answer", {"input": {"question": "a", "context": "b c"}, "top_k": 4}, 5 * 3),
]


@pytest.mark.parametrize(
    ("what", "path", "body", "count"),
    [("numbers", *each) for each in NUMBERS] + [("characters", *each) for each in CHARACTERS],
)
def test_what_a_reply_holds_is_judged(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, what: str, path: str, body: Any, count: int
) -> None:
    monkeypatch.setattr(limits, f"MAX_{what.upper()}", count)
    assert client.post(path, json=body).status_code == 200
    monkeypatch.setattr(limits, f"MAX_{what.upper()}", count - 1)
    error = check_no(client.post(path, json=body), 413)
    assert error["code"] == f"too_many_{what}"
    assert f"would have {count} {what}; at most {count - 1} are" in error["message"]


def test_ordinary_use_is_within_the_bounds(client: TestClient) -> None:
    limits.check_reply(2048 * 4 * 1024, 0)
    limits.check_reply(2048**2, 0)
    limits.check_reply(10_000 * 768, 0)
    limits.check_reply(8_388_608, 16_777_216)
    for more in ((8_388_609, 0), (0, 16_777_217)):
        with pytest.raises(HttpError):
            limits.check_reply(*more)
    texts = ["a b c d e f g h"] * 2048
    assert client.post("/fill-mask", json={"input": ["[MASK] a"] * 500}).status_code == 200
    assert client.post("/embed", json={"input": texts}).status_code == 200
