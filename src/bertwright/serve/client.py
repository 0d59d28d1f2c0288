"""A client of the server: the standard library only, no torch.

    client = Client("http://127.0.0.1:8080", key="...")
    client.embed(["a text", "another"], layers=[-2])["vectors"]

Replies are those of the server, as dictionaries (docs/serving.md). What the server refuses for now
(429, 503) and connections that break before an answer are tried again, after Retry-After or longer
and longer; every request has a time in which all of it must be done.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from bertwright.errors import BertwrightError, ConfigError

Reply = dict[str, Any]
AGAIN = (429, 503)


class ServerError(BertwrightError):
    """The server said no, or did not answer in time."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"the server says {status} ({code}): {message}")
        self.status, self.code = status, code
        """0 where there was no answer."""


class Client:
    """Asks one server; may be shared by threads, each of which has its own connection."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        key: str | None = None,
        model: str | None = None,
        timeout: float = 30.0,
        retries: int = 5,
    ) -> None:
        """Connects when it is first asked.

        Args:
            url: of the server.
            key: one of its keys, where it has some.
            model: name of the model; unset: the server's first.
            timeout: seconds for a request, tries and waits between them included.
            retries: how often to try again.

        Raises:
            ConfigError: no such kind of address, or no time at all.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"url is {url!r}; expected http://HOST:PORT")
        if not 0 < timeout < float("inf"):
            raise ConfigError(f"timeout is {timeout}; expected seconds above 0")
        self._scheme, self._host, self._port = parts.scheme, parts.hostname, parts.port
        self._path = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self.model, self.timeout, self.retries = model, timeout, retries
        self._local = threading.local()

    def embed(self, input: Any, **more: Any) -> Reply:
        """Vectors of texts and pairs: `layers`, `pooling`, `normalize`, `truncate`, `dtype`."""
        return self.ask("/embed", input=input, **more)

    def tokens(self, input: Any, **more: Any) -> Reply:
        """A vector a token."""
        return self.ask("/tokens", input=input, **more)

    def tokenize(self, input: Any, **more: Any) -> Reply:
        """Tokens, ids and offsets."""
        return self.ask("/tokenize", input=input, **more)

    def fill_mask(self, input: Any, **more: Any) -> Reply:
        """The likeliest tokens of blanks."""
        return self.ask("/fill-mask", input=input, **more)

    def next_sentence(self, first: str, second: str, **more: Any) -> Reply:
        """Whether one text follows another."""
        return self.ask("/next-sentence", input=[first, second], **more)

    def classify(self, input: Any, **more: Any) -> Reply:
        """Classes of texts and pairs."""
        return self.ask("/classify", input=input, **more)

    def tag(self, input: Any, **more: Any) -> Reply:
        """Tags and entities."""
        return self.ask("/tag", input=input, **more)

    def answer(self, question: str, context: str, **more: Any) -> Reply:
        """An answer out of a passage."""
        return self.ask("/answer", question=question, context=context, **more)

    def rerank(self, query: str, documents: list[str], **more: Any) -> Reply:
        """Documents, the most relevant first."""
        return self.ask("/rerank", query=query, documents=documents, **more)

    def similarity(self, input: list[str], **more: Any) -> Reply:
        """Cosines, each with each."""
        return self.ask("/similarity", input=input, **more)

    def attention(self, input: Any, **more: Any) -> Reply:
        """Who attends to whom."""
        return self.ask("/attention", input=input, **more)

    def models(self) -> list[Reply]:
        """The models there are."""
        found: list[Reply] = self._request("GET", "/v1/models", None)["data"]
        return found

    def ask(self, path: str, **body: Any) -> Reply:
        """Any route.

        Raises:
            ServerError: it said no, or did not answer in time.
        """
        if self.model is not None:
            body = {"model": self.model, **body}
        return self._request("POST", path, json.dumps(body).encode())

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _request(self, method: str, path: str, body: bytes | None) -> Reply:
        end = time.monotonic() + self.timeout
        last = ServerError(0, "timeout", "no answer in time")
        for tried in range(self.retries + 1):
            left = end - time.monotonic()
            if left <= 0:
                break
            wait = min(5.0, 0.1 * 2**tried) * (0.5 + random.random())
            try:
                status, headers, content = self._once(method, path, body, left)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                last = ServerError(0, "unreachable", type(error).__name__)
            else:
                if status < 400:
                    reply: Reply = json.loads(content)
                    return reply
                last = _refused(status, content)
                if status not in AGAIN:
                    raise last
                wait = max(wait, _seconds(headers.get("Retry-After")))
            if tried == self.retries or time.monotonic() + wait >= end:
                break
            time.sleep(wait)
        raise last

    def _once(
        self, method: str, path: str, body: bytes | None, left: float
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            made = http.client.HTTPSConnection if self._scheme == "https" else None
            kind = made or http.client.HTTPConnection
            connection = self._local.connection = kind(self._host, self._port, timeout=left)
        connection.timeout = left
        if connection.sock is not None:
            connection.sock.settimeout(left)
        headers = {**self._headers, "X-Timeout": f"{left:.3f}"}
        connection.request(method, self._path + path, body, headers)
        reply = connection.getresponse()
        content = reply.read()
        if reply.will_close:
            self.close()
        return reply.status, reply.headers, content


class AsyncClient:
    """The same for asyncio: `await client.ask("/embed", input=["a"])`, and the other methods."""

    def __init__(self, url: str = "http://127.0.0.1:8080", **settings: Any) -> None:
        """See `Client`."""
        self._client = Client(url, **settings)

    async def ask(self, path: str, **body: Any) -> Reply:
        """Any route; see `Client.ask`."""
        return await asyncio.to_thread(self._client.ask, path, **body)

    async def models(self) -> list[Reply]:
        """The models there are."""
        return await asyncio.to_thread(self._client.models)

    async def embed(self, input: Any, **more: Any) -> Reply:
        """Vectors of texts and pairs."""
        return await self.ask("/embed", input=input, **more)

    async def fill_mask(self, input: Any, **more: Any) -> Reply:
        """The likeliest tokens of blanks."""
        return await self.ask("/fill-mask", input=input, **more)

    async def classify(self, input: Any, **more: Any) -> Reply:
        """Classes of texts and pairs."""
        return await self.ask("/classify", input=input, **more)

    async def tag(self, input: Any, **more: Any) -> Reply:
        """Tags and entities."""
        return await self.ask("/tag", input=input, **more)

    async def answer(self, question: str, context: str, **more: Any) -> Reply:
        """An answer out of a passage."""
        return await self.ask("/answer", question=question, context=context, **more)

    async def rerank(self, query: str, documents: list[str], **more: Any) -> Reply:
        """Documents, the most relevant first."""
        return await self.ask("/rerank", query=query, documents=documents, **more)


def _refused(status: int, content: bytes) -> ServerError:
    try:
        error = json.loads(content)["error"]
        return ServerError(status, str(error["code"]), str(error["message"]))
    except (ValueError, KeyError, TypeError):
        return ServerError(status, "unknown", "a reply of another kind")


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or 0))
    except ValueError:
        return 0.0
