"""A server of canned answers for the playground's tests, without a model.

Attention is made from numbers of tokens, so that the page has something to draw.
Run it to look at the page: `python -m tests.serve.fake_server 8081`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from bertwright.config.serve import ServeConfig
from tests.house.source import PACKAGE
from tests.serve.sockets import served

LAYERS, HEADS = 12, 12
PLAYGROUND = PACKAGE / "serve" / "playground"
SHA256 = "5f0e7c" * 10 + "abcd"
NO_KEY = JSONResponse({"error": {"message": "a key is needed: Authorization: Bearer KEY"}}, 401)

MODELS = [
    {
        "id": "full",
        "examples": [
            "``parse(text)`` returns a <Tree>::",  # of a page of documentation: never shown
            "The animal did not cross the street because it was too tired.",
            "the [MASK] flows",
        ],
        "heads": ["masked_lm", "next_sentence", "translation"],
        "generates": True,
        "words": True,
        "tasks": [
            {"name": "sst", "kind": "classification", "labels": ["negative", "positive"]},
            {"name": "ner", "kind": "tagging", "labels": ["O", "B-PER", "B-LOC", "B-DATE"]},
            {"name": "squad", "kind": "span", "labels": []},
            {"name": "sum", "kind": "generation", "labels": []},
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


class Fake:
    """Answers by path; what a test wants otherwise, and what it looks for, stands here."""

    def __init__(self, key: str = "", models: list[dict[str, Any]] = MODELS) -> None:
        self.key, self.models, self.port = key, models, 0
        self.seen: list[tuple[str, Any]] = []
        """Paths and bodies that were posted."""
        self.left = False
        """Whether who read a stream went away."""
        self.app = Starlette(
            routes=[
                Route("/", lambda _: FileResponse(PLAYGROUND / "index.html")),
                Mount("/playground", StaticFiles(directory=PLAYGROUND)),
                Route("/v1/models", self.list_models),
                Route("/{path:path}", self.answer, methods=["POST"]),
            ]
        )

    def refuses(self, request: Request) -> bool:
        """Whether the key is wrong."""
        return bool(self.key) and request.headers.get("authorization") != f"Bearer {self.key}"

    async def list_models(self, request: Request) -> Response:
        """The models."""
        if self.refuses(request):
            return NO_KEY
        data = [
            {"vectors": True, "attention_heads": 2, **m, "sha256": SHA256, "layers": LAYERS}
            for m in self.models
        ]
        return JSONResponse({"object": "list", "data": data})

    async def answer(self, request: Request) -> Response:
        """Every route of the playground."""
        path, asked = request.url.path, await request.json()
        if self.refuses(request):
            return NO_KEY
        self.seen.append((path, asked))
        if "refuse" in json.dumps(asked):
            error = {"message": "the text has <b>700</b> tokens; at most 512"}
            return JSONResponse({"error": error}, 422)
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
            parts = self.stream(path, asked, receipt)
            return StreamingResponse(parts, media_type="text/event-stream")
        return JSONResponse({**receipt, **ROUTES[path](asked)})

    async def stream(self, path: str, asked: Any, receipt: Any) -> AsyncIterator[bytes]:
        """Events, each in two parts; none is the last while somebody listens, where the prompt
        says so."""
        try:
            async for event in events(path, asked, receipt):
                line = b"data: " + json.dumps(event).encode() + b"\n\n"
                yield line[:9]
                yield line[9:]
            yield b"data: [DONE]\n\n"
        except asyncio.CancelledError:
            self.left = True
            raise


async def events(path: str, asked: Any, receipt: Any) -> AsyncIterator[Any]:
    """Words as events; translations are whole."""
    if path == "/translate":
        for number, text in reversed(list(enumerate(asked["input"]))):
            yield {"prompt": number, "number": 0, "text": text[::-1], "reason": "stop"}
        yield {**receipt, "tokens_generated": 0}
        return
    endless, words = "without end" in asked["input"], [" and", " then", " <b>the</b>", " end", "."]
    for word in itertools.cycle(words) if endless else words:
        for number in range(asked.get("num", 1)):
            reason = "stop" if word == "." and not endless else None
            yield {"prompt": 0, "number": number, "text": word, "reason": reason}
        await asyncio.sleep(0.01)
    yield {**receipt, "tokens_generated": len(words)}


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
    context = asked["input"]["context"]
    start = max(0, context.find("1836"))
    best = {"answer": context[start : start + 4], "start": start, "end": start + 4}
    answers = [{**best, "score": 0.91}, {"answer": "", "start": 0, "end": 0, "score": 0.04}]
    return {"task": "squad", "results": [{**answers[0], "answers": answers}]}


def _cosines(asked: dict[str, Any]) -> Any:
    count = len(asked["input"])
    rows = [
        [1.0 if i == j else 0.9 - 0.13 * abs(i - j) - 0.02 * (i + j) for j in range(count)]
        for i in range(count)
    ]
    return {"similarities": rows}


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
    function = "cosine" if asked["query"] == "vectors" else None
    return {"results": found[::-1], "task": "sst", "similarity": function}


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
    "/nearest": lambda asked: {
        "results": [[{"word": "<b>river</b>", "cosine": 0.71}, {"word": "shore", "cosine": -0.2}]]
    },
    "/tokenize": lambda asked: {"results": [pieces(asked["input"])]},
    "/attention": _attention,
}


@contextmanager
def fake_server(**settings: Any) -> Iterator[Fake]:
    """A running server."""
    fake = Fake(**settings)
    with served(fake.app, ServeConfig()) as server:
        fake.port = server.servers[0].sockets[0].getsockname()[1]
        yield fake


if __name__ == "__main__":
    uvicorn.run(Fake().app, port=int(sys.argv[1]))
