"""A server of canned answers for the playground's tests: standard library only, no model.

Vectors and attention are made from the tokens' letters, so that the page has something to draw.
Run it to look at the page: `python tests/serve/fake_server.py 8081`.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.house.source import PACKAGE

LAYERS, HEADS, WIDTH = 12, 12, 16
PLAYGROUND = PACKAGE / "serve" / "playground"
MEDIA = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
SHA256 = "5f0e7c" * 10 + "abcd"

MODELS = [
    {
        "id": "full",
        "examples": [
            "The animal did not cross the street because it was too tired.",
            "the [MASK] flows",
        ],
        "heads": ["masked_lm", "next_sentence", "translation"],
        "generates": True,
        "tasks": [
            {"name": "sst", "kind": "classification", "labels": ["negative", "positive"]},
            {"name": "ner", "kind": "tagging", "labels": ["O", "B-PER", "B-LOC", "B-DATE"]},
            {"name": "squad", "kind": "span", "labels": []},
        ],
    },
    {
        "id": "bare",
        "heads": [],
        "tasks": [{"name": "own", "kind": "generation", "labels": []}],  # which continues nothing
    },
]


def pieces(text: str) -> dict[str, Any]:
    """Words and marks, long words in two pieces, as WordPiece writes them."""
    tokens, offsets = ["[CLS]"], [(0, 0)]
    for found in re.finditer(r"\[MASK\]|\w+|[^\w\s]", text):
        word, start = found[0], found.start()
        cut = len(word) if len(word) < 8 or word == "[MASK]" else 5
        for a, b in ((0, cut), (cut, len(word))):
            if b > a:
                tokens.append(("##" if a else "") + word[a:b].lower())
                offsets.append((start + a, start + b))
    tokens.append("[SEP]")
    offsets.append((0, 0))
    ids = [100 + sum(map(ord, t)) for t in tokens]
    return {"tokens": tokens, "ids": ids, "offsets": [list(o) for o in offsets]}


def vector(tokens: list[str], place: int, layer: int) -> list[float]:
    """The letters of a token, and more of its neighbours at every layer."""
    own = [math.sin(sum(map(ord, tokens[place])) * (k + 1)) for k in range(WIDTH)]
    share = layer / LAYERS
    near = sum(ord(c) for t in tokens[max(0, place - 3) : place] for c in t)
    other = [math.cos(near * (k + 1)) for k in range(WIDTH)]
    return [(1 - 0.7 * share) * a + 0.7 * share * b for a, b in zip(own, other, strict=True)]


def attention(count: int, layer: int) -> list[list[list[float]]]:
    """`[A, T, T]`, rows that sum to 1: each head looks at another distance."""
    heads = []
    for head in range(HEADS):
        rows = []
        for i in range(count):
            aim = i - head + layer % 5
            raw = [
                math.exp(-abs(j - aim)) + 0.02 + (head % 3 == 0 and j == 0) for j in range(count)
            ]
            rows.append([value / sum(raw) for value in raw])
        heads.append(rows)
    return heads


class Handler(BaseHTTPRequestHandler):
    """Answers by path; what a test wants otherwise stands on the server."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""

    def reply(self, status: int, body: bytes, media: str = "application/json") -> None:
        """Send one answer, never kept."""
        self.send_response(status)
        self.send_header("content-type", media)
        self.send_header("cache-control", "no-store")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def json(self, status: int, value: Any) -> None:
        """Send JSON."""
        self.reply(status, json.dumps(value).encode())

    def refused(self) -> bool:
        """Whether the key is wrong; then it was said."""
        key = self.server.key
        if key and self.headers.get("authorization") != f"Bearer {key}":
            self.json(401, {"error": {"message": "a key is needed: Authorization: Bearer KEY"}})
            return True
        return False

    def do_GET(self) -> None:
        """The page's files and the models."""
        name = "index.html" if self.path == "/" else self.path.removeprefix("/playground/")
        file = PLAYGROUND / name
        if "/" not in name and file.suffix in MEDIA and file.is_file():
            self.reply(200, file.read_bytes(), f"{MEDIA[file.suffix]}; charset=utf-8")
        elif self.path == "/v1/models":
            if not self.refused():
                data = [{**m, "sha256": SHA256, "layers": LAYERS} for m in self.server.models]
                self.json(200, {"object": "list", "data": data})
        else:
            self.json(404, {"error": {"message": f"no route {self.path}"}})

    def do_POST(self) -> None:
        """Every route of the playground."""
        raw = self.rfile.read(int(self.headers["content-length"]))
        if self.refused():
            return
        asked = json.loads(raw)
        self.server.seen.append((self.path, asked))
        if "refuse" in json.dumps(asked):
            self.json(422, {"error": {"message": "the text has <b>700</b> tokens; at most 512"}})
            return
        results = ROUTES[self.path](asked) if self.path in ROUTES else {}
        receipt = {
            "model": asked["model"],
            "sha256": SHA256,
            "layers": asked.get("layers", [LAYERS]),
            "pooling": asked.get("pooling", "mean"),
            "normalized": False,
            "tokens_used": 17,
            "truncated": [],
        }
        if asked.get("stream"):
            self.stream(asked, receipt)
        else:
            self.json(200, {**receipt, **results})

    def stream(self, asked: dict[str, Any], receipt: dict[str, Any]) -> None:
        """Words as events; of a prompt that says so without end, until nobody listens."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        endless = "without end" in asked["input"]
        words = [" and", " then", " <b>the</b>", " end", "."]
        try:
            if self.path == "/translate":
                for number, text in reversed(list(enumerate(asked["input"]))):
                    part = {"prompt": number, "number": 0, "text": text[::-1], "reason": "stop"}
                    self.event(part)
                words = []
            for word in itertools.cycle(words) if endless else words:
                for number in range(asked["num"]):
                    reason = "stop" if word == "." and not endless else None
                    part = {"prompt": 0, "number": number, "text": word, "reason": reason}
                    self.event(part)
                time.sleep(0.01)
            self.event({**receipt, "tokens_generated": len(words)})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            self.server.left = True

    def event(self, value: Any) -> None:
        """Send one event, in two parts."""
        line = b"data: " + json.dumps(value).encode() + b"\n\n"
        for part in (line[:9], line[9:]):
            self.wfile.write(part)
            self.wfile.flush()


def _fill(asked: dict[str, Any]) -> Any:
    words = ["capital", "heart", "centre", "<img src=x onerror=alert(1)>", "##s"]
    shares = [0.83, 0.06, 0.031, 0.012, 0.0002]
    blank = [{"token_str": w, "score": p} for w, p in zip(words, shares, strict=True)]
    return {"results": [[blank] * asked["input"].count("[MASK]")]}


def _tag(asked: dict[str, Any]) -> Any:
    kinds = {"Ada Lovelace": "PER", "Charles Babbage": "PER", "London": "LOC", "June 1833": "DATE"}
    entities = [
        {"entity_group": k, "word": w, "start": m.start(), "end": m.end(), "score": 0.97}
        for w, k in kinds.items()
        for m in re.finditer(w, asked["input"])
    ]
    return {"task": "ner", "results": [{"entities": entities}]}


def _answer(asked: dict[str, Any]) -> Any:
    start = max(0, asked["context"].find("1836"))
    best = {"answer": asked["context"][start : start + 4], "start": start, "end": start + 4}
    answers = [{**best, "score": 0.91}, {"answer": "", "start": 0, "end": 0, "score": 0.04}]
    return {"task": "squad", "results": [{**answers[0], "answers": answers}]}


def _cosines(asked: dict[str, Any]) -> Any:
    count = len(asked["input"])
    rows = [
        [1.0 if i == j else 0.9 - 0.13 * abs(i - j) - 0.02 * (i + j) for j in range(count)]
        for i in range(count)
    ]
    return {"similarities": rows}


def _tokens(asked: dict[str, Any]) -> Any:
    found = []
    for text in asked["input"]:
        made = pieces(text)
        places = range(len(made["tokens"]))
        made["vectors"] = [
            [x for layer in asked["layers"] for x in vector(made["tokens"], place, layer)]
            for place in places
        ]
        found.append(made)
    return {"results": found}


def _attention(asked: dict[str, Any]) -> Any:
    text = asked["input"]
    made = pieces(text if isinstance(text, str) else " ".join(text))
    count = len(made["tokens"])
    return {**made, "attentions": [attention(count, layer) for layer in asked["layers"]]}


def _classify(asked: dict[str, Any]) -> Any:
    shares = {"positive": 0.92, "negative": 0.08}
    found = [{"label": label, "score": score} for label, score in shares.items()]
    return {"task": "sst", "results": [found]}


def _rerank(asked: dict[str, Any]) -> Any:
    found = [{"index": i, "score": 0.9 / (1 + i)} for i in range(len(asked["documents"]))]
    return {"results": found[::-1], "scored_by": "cosine"}


ROUTES = {
    "/fill-mask": _fill,
    "/answer": _answer,
    "/tag": _tag,
    "/classify": _classify,
    "/next-sentence": lambda asked: {
        "results": [{"probability": 0.88} for _ in asked["input"][:1]]
    },
    "/rerank": _rerank,
    "/similarity": _cosines,
    "/tokenize": lambda asked: {"results": [pieces(asked["input"])]},
    "/tokens": _tokens,
    "/attention": _attention,
}


@contextmanager
def fake_server(
    key: str = "", port: int = 0, models: list[dict[str, Any]] = MODELS
) -> Iterator[ThreadingHTTPServer]:
    """A running server; `.seen` has what was asked, `.key` what it wants, `.left` whether who read
    a stream went away."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.key, server.seen = key, []
    server.models, server.left = models, False
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    with fake_server(port=int(sys.argv[1])) as running:
        threading.Event().wait()
