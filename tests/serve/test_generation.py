"""Served text: what the library gives, whole or streamed, whoever else asks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from bertwright.config.serve import ServeConfig
from bertwright.decoding.search import RowsInFlight
from bertwright.inference.model import Model, load
from bertwright.serve.app import make_app
from tests.serve.conftest import ask, check_no, figures, streamed, until_ready
from tests.serve.sockets import HOST, connect
from tests.serve.sockets import served as listening

PROMPTS = ["a b c", "the d. e f g h i j k", "", "z"]
LONG = " ".join("abcdefghijklmnopqrstuvwxyz" * 2)


@pytest.fixture(scope="module")
def model(gpt: Path) -> Model:
    return load(gpt, device="cpu")


def generate(client: TestClient, **body: Any) -> dict[str, Any]:
    return ask(client, "/generate", model="gpt", **body)


def complete(client: TestClient, **body: Any) -> dict[str, Any]:
    return ask(client, "/v1/completions", model="gpt", **body)


def test_greedy_text_is_the_librarys(client: TestClient, model: Model) -> None:
    known = [found[0] for found in model.generate(PROMPTS, max_new_tokens=20)]
    assert len({each.text for each in known}) == len(PROMPTS)
    together = generate(client, input=PROMPTS, max_new_tokens=20)
    for prompt, each, (found,) in zip(PROMPTS, known, together["results"], strict=True):
        own = {"text": each.text, "tokens": len(each.ids), "reason": each.reason}
        assert found == {**own, "score": None}
        (alone,) = generate(client, input=prompt, max_new_tokens=20)["results"]
        assert alone == [found]
    assert together["tokens_generated"] == sum(len(each.ids) for each in known)
    assert together["tokens_used"] == sum(
        len(model.tokenizer.encode(prompt).ids) - 1 for prompt in PROMPTS
    )
    found = complete(client, prompt=PROMPTS, max_tokens=20, temperature=0)
    assert [each["text"] for each in found["choices"]] == [each.text for each in known]


def test_samples_are_those_of_their_seed(client: TestClient, model: Model) -> None:
    options = {"max_new_tokens": 12, "sample": True, "temperature": 1.5, "top_k": 20, "top_p": 0.9}
    options |= {"num": 3, "seed": 5, "repetition_penalty": 1.2}
    known = [[each.text for each in found] for found in model.generate(PROMPTS, **options)]
    found = generate(client, input=PROMPTS, **options)["results"]
    assert [[each["text"] for each in texts] for texts in found] == known
    options = {"max_tokens": 12, "n": 3, "seed": 5, "top_p": 0.9, "top_k": 20, "temperature": 1.5}
    found = complete(client, prompt=PROMPTS, repetition_penalty=1.2, **options)["choices"]
    assert [each["text"] for each in found] == [text for texts in known for text in texts]
    assert [each["index"] for each in found] == list(range(12))
    free = [complete(client, prompt="a", max_tokens=30)["choices"][0]["text"] for _ in range(4)]
    assert len(set(free)) > 1


SENTENCES = ["a b c", "the d. e f g h i j k", "z", "a b c", "x y the the z"]


@pytest.mark.slow
def test_translations_are_the_librarys(client: TestClient, mt: Path) -> None:
    model = load(mt, device="cpu")
    for options in ({}, {"beam": 1}, {"beam": 3, "length_penalty": 1.5, "max_length": 7}):
        known = model.translate(SENTENCES, **options)
        body = {"input": SENTENCES, "model": "mt", **options}
        found = ask(client, "/translate", **body)
        assert [each["text"] for each in found["results"]] == [each.text for each in known]
        for text, each in zip(found["results"], known, strict=True):
            assert (text["reason"], text["score"]) == (
                each.reason,
                pytest.approx(each.score, abs=1e-4),
            )
        *events, last = streamed(client, "/translate", **body)
        assert {event["prompt"]: event["text"] for event in events} == {
            n: each.text for n, each in enumerate(known)
        }
        assert last["tokens_generated"] == found["tokens_generated"]
    assert len({each.text for each in known}) > 2


def test_what_cannot_be_translated(client: TestClient) -> None:
    error = check_no(client.post("/translate", json={"input": "a", "model": "gpt"}), 400)
    assert error["message"] == "gpt translates nothing; request a model that has one: mt"
    error = check_no(client.post("/translate", json={"input": ["a", LONG], "model": "mt"}), 400)
    assert error["code"] == "too_long"
    found = ask(client, "/translate", input=["a", LONG], model="mt", truncate=True)
    assert found["truncated"] == [{"input": 1, "tokens_cut": 54 - 48}]


@pytest.mark.slow
def test_many_translate_at_once(client: TestClient, mt: Path) -> None:
    known = [each.text for each in load(mt, device="cpu").translate(SENTENCES * 4)]

    def one(n: int) -> str:
        (found,) = ask(client, "/translate", input=(SENTENCES * 4)[n], model="mt")["results"]
        text: str = found["text"]
        return text

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(20))) == known


@pytest.mark.parametrize("path", ["/generate", "/v1/completions"])
@pytest.mark.parametrize("stop", [[], ["q", "h i"]])
def test_a_stream_is_the_whole_in_parts(client: TestClient, path: str, stop: list[str]) -> None:
    own = path == "/generate"
    body: dict[str, Any] = {"seed": 1, "stop": stop}
    if own:
        body |= {"input": PROMPTS, "sample": True, "num": 2, "max_new_tokens": 30}
        index, end = ("prompt", "number"), "reason"
    else:
        body |= {"prompt": PROMPTS, "n": 2, "max_tokens": 30}
        index, end = ("index",), "finish_reason"
    events = streamed(client, path, **body)
    whole = ask(client, path, model="gpt", **body)
    texts: dict[Any, str] = {}
    ends: dict[Any, str] = {}
    last = events.pop() if own else None
    for event in events:
        (piece,) = [event] if own else event["choices"]
        key = tuple(piece[name] for name in index)
        texts[key] = texts.get(key, "") + piece["text"]
        assert key not in ends
        ends |= {key: piece[end]} if piece[end] else {}
    if own:
        results = whole.pop("results")
        known = {(p, n): each for p, row in enumerate(results) for n, each in enumerate(row)}
        assert last == whole
        assert any("q" in text for text in texts.values()) == (not stop)
    else:
        known = {(each["index"],): each for each in whole["choices"]}
        assert len({event["id"] for event in events}) == 1
    assert texts == {key: each["text"] for key, each in known.items()}
    assert ends == {key: each[end] for key, each in known.items()}


def test_openais_reply_to_the_letter(client: TestClient, model: Model) -> None:
    """What the `openai` package sends for `client.completions.create`, and reads."""
    body = {"model": "gpt", "prompt": "a b", "max_tokens": 5, "temperature": 0.0, "user": "me"}
    reply = client.post("/v1/completions", json=body)
    assert reply.headers["x-bertwright-sha256"] == generate(client, input="a")["sha256"]
    found = reply.json()
    (known,) = model.generate("a b", max_new_tokens=5)
    assert 0 <= time.time() - found.pop("created") < 60
    assert found.pop("id").startswith("cmpl-")
    choice = {"text": known[0].text, "index": 0, "logprobs": None, "finish_reason": "length"}
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    assert found == {
        "object": "text_completion",
        "model": "gpt",
        "choices": [choice],
        "usage": usage,
    }


@pytest.mark.slow
def test_what_is_too_long_or_cannot_be(client: TestClient, served: Callable[..., Any]) -> None:
    for path, key in (("/generate", "input"), ("/v1/completions", "prompt")):
        error = check_no(client.post(path, json={key: ["a", LONG], "model": "gpt"}), 400)
        assert error["code"] == "too_long"
        assert "prompt 1 has 53 tokens; this model reads 48 at once" in error["message"]
        error = check_no(client.post(path, json={key: "a"}), 400)
        assert error["code"] == "no_head"
        assert error["message"].endswith("request a model that has one: gpt")
        body = {key: ["a"] * 300, "model": "gpt", "max_new_tokens": 40, "max_tokens": 40}
        body.pop("max_tokens" if key == "input" else "max_new_tokens")
        assert check_no(client.post(path, json=body), 413)["code"] == "too_many_tokens"
    alone = check_no(served().post("/generate", json={"input": "a"}), 400)
    assert "full generates no text" in alone["message"]
    assert "request a model" not in alone["message"]
    (cut,) = generate(client, input=LONG, truncate=True, max_new_tokens=6)["results"]
    (end,) = generate(client, input=LONG[-2 * 40 + 1 :], max_new_tokens=6)["results"]
    assert cut == end
    assert generate(client, input=LONG, truncate=True, max_new_tokens=6)["truncated"] == [
        {"input": 0, "tokens_cut": 12}
    ]
    text = generate(client, input="a", max_new_tokens=1000)["results"][0][0]
    assert (text["tokens"], text["reason"]) == (47, "length")  # the context is full


@pytest.mark.parametrize(
    "more",
    [
        {"max_tokens": 0},
        {"n": 33},
        {"n": 2, "best_of": 3},
        {"temperature": -1},
        {"top_p": 0},
        {"stop": ""},
        {"stop": ["a"] * 17},
        {"suffix": "zebra"},
        {"frequency_penalty": 1},
        {"presence_penalty": 0.5},
        {"logit_bias": {"5": 1}},
        {"echo": True},
        {"logprobs": 1},
        {"prompt": []},
        {"prompt": [41]},
        {"prompt": ["a", 1]},
        {"prompt": "\0"},
        {"stream": 1},
    ],
)
def test_completions_that_are_refused(client: TestClient, more: dict[str, Any]) -> None:
    body = {"model": "gpt", "prompt": "a", **more}
    error = check_no(client.post("/v1/completions", json=body), 400)
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "more",
    [
        {"zebra": 1},
        {"temperature": 0.5},
        {"sample": True, "temperature": 0},
        {"num": 0},
        {"num": 2},
        {"beam": 2},
    ],
)
def test_generations_that_are_refused(client: TestClient, more: dict[str, Any]) -> None:
    check_no(client.post("/generate", json={"model": "gpt", "input": "a", **more}), 400)


def test_tokens_are_counted(client: TestClient) -> None:
    def counted() -> dict[str, float]:
        return figures(client.get("/metrics").text)

    before = counted()
    made = generate(client, input=PROMPTS, max_new_tokens=9)
    streamed(client, "/v1/completions", prompt="a", max_tokens=9, temperature=0)
    after = counted()
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    assert grown["generated_tokens_total gpt"] == made["tokens_generated"] + 9
    assert grown["tokens_total gpt"] == made["tokens_used"] + 2
    assert grown["batch_texts_sum"] == 0  # turns are no batches


def test_many_callers_get_what_each_gets_alone(client: TestClient, model: Model) -> None:
    prompts = [" ".join("abcdefghij"[: 1 + n % 7]) for n in range(40)]
    known = [found[0].text for found in model.generate(prompts, max_new_tokens=25)]

    def one(n: int) -> str:
        if n % 5 == 4:  # embeddings between
            return str(len(ask(client, "/embed", input=prompts[n])["vectors"][0]))
        text: str = generate(client, input=prompts[n], max_new_tokens=25)["results"][0][0]["text"]
        return text

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(one, range(40)))
    assert found == ["24" if n % 5 == 4 else known[n] for n in range(40)]


def test_a_client_that_leaves_frees_its_place(gpt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = RowsInFlight.step

    def slowly(self: RowsInFlight) -> Any:
        time.sleep(0.05)
        return step(self)

    monkeypatch.setattr(RowsInFlight, "step", slowly)
    config = ServeConfig(model=(f"gpt={gpt}",), device="cpu", log_requests=False)
    app = make_app(config)
    with listening(app, config, app, lifespan="on") as server:
        host, port = server.servers[0].sockets[0].getsockname()
        with httpx.Client(base_url=f"http://{host}:{port}") as client:
            until_ready(client)
            for stream in (True, False):
                body = json.dumps({"prompt": "a", "max_tokens": 47, "n": 32, "stream": stream})
                with connect(server) as connection:
                    head = b"POST /v1/completions HTTP/1.1\r\n" + HOST
                    length = b"Content-Length: %d\r\n\r\n" % len(body)
                    connection.sendall(head + length + body.encode())
                    if stream:
                        assert connection.recv(100).startswith(b"HTTP/1.1 200")
                    else:
                        time.sleep(0.2)
                for _ in range(200):
                    found = figures(client.get("/metrics").text)
                    if found.get("dropped_requests_total gone") == 2 - stream:
                        break
                    time.sleep(0.02)
                else:
                    pytest.fail("it was not noticed")
            assert found["generated_tokens_total gpt"] < 32 * 47
