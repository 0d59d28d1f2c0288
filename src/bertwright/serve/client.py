"""A client of the server, on httpx; it needs neither torch nor the server's packages.

    client = Client("http://127.0.0.1:8080", key="...")
    client.embed(["a text", "another"], layers=[-2])["vectors"]

Replies are those of the server, as dictionaries (docs/howto/serving.md). As httpx limits the time
of single reads only, both clients share asynchronous code under one timeout; `Client` runs it in a
thread.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from functools import lru_cache
from typing import Any, Generic, TypeVar

try:
    import httpx
except ImportError as error:
    raise ImportError('the client needs httpx: pip install "bertwright[client]"') from error

from bertwright.errors import BertwrightError, ConfigError

Reply = dict[str, Any]
RETRIED = (429, 503)
MAX_CONNECTIONS = 100
"""The most connections of a client; further requests wait for one within their timeout."""
One = TypeVar("One")
T = TypeVar("T")


class ServerError(BertwrightError):
    """The server replied with an error or without a JSON object, or did not reply in time."""

    def __init__(self, status: int, code: str, message: str) -> None:
        source = f"the server replied {status} ({code})" if status else f"no reply ({code})"
        super().__init__(f"{source}: {message}")
        self.status, self.code = status, code
        """The status is 0 if there was no reply."""


class _BaseClient(ABC, Generic[One]):
    """The methods of both clients, which return a reply as `One`."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        key: str | None = None,
        model: str | None = None,
        timeout: float = 30.0,
        retries: int = 5,
    ) -> None:
        """Connect at the first request.

        Args:
            url: the address of the server.
            key: one of its API keys, if it has any.
            model: the name of the model; unset: the server's first.
            timeout: seconds for a call, with its retries and the waits between them.
            retries: the most retries of a call.
        """
        try:
            parts = httpx.URL(url)
            more = parts.userinfo or parts.query or parts.fragment  # would be ignored
            known = parts.scheme in ("http", "https") and 0 < (parts.port or 80) < 65536
        except (httpx.InvalidURL, TypeError):
            known = False
        if not known or not parts.host or more:
            raise ConfigError(f"url is {url!r}; expected http://HOST:PORT")
        if not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf"):
            raise ConfigError(f"timeout is {timeout!r}; expected seconds above 0")
        if not isinstance(retries, int) or retries < 0:
            raise ConfigError(f"retries is {retries!r}; expected a whole number, 0 or more")
        if key is not None and not (isinstance(key, str) and key.isprintable()):
            raise ConfigError("key has characters that no header can carry; expected one line")
        self._url, self._key = url.rstrip("/"), key
        self.model, self.timeout, self.retries = model, timeout, retries
        self._loop: asyncio.AbstractEventLoop | None = None
        self._http: httpx.AsyncClient | None = None

    @abstractmethod
    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of a call, or what awaits it."""

    def ask(self, path: str, **body: Any) -> One:
        """Return the reply of any route: `ask("/classify", input="a text")`, `ask("/v1/models")`.

        Raises:
            ServerError: the reply is an error, or does not come in time.
        """
        if body and self.model is not None:
            body = {"model": self.model, **body}
        given = ("POST", path, json.dumps(body).encode()) if body else ("GET", path, b"")
        found: One = self._run(self._request(*given))
        return found

    def close(self) -> Any:
        """Close the connections that are kept for further requests."""
        return self._run(self._disconnect())

    def embed(self, input: Any, **more: Any) -> One:
        """Return the vectors of texts and pairs, by `layers`, `pooling`, `normalize`, `dtype`."""
        return self.ask("/embed", input=input, **more)

    def fill_mask(self, input: Any, **more: Any) -> One:
        """Return the most probable tokens for each [MASK]."""
        return self.ask("/fill-mask", input=input, **more)

    def classify(self, input: Any, **more: Any) -> One:
        """Return the classes of texts and pairs."""
        return self.ask("/classify", input=input, **more)

    def tag(self, input: Any, **more: Any) -> One:
        """Return the tags and entities of texts."""
        return self.ask("/tag", input=input, **more)

    def answer(self, question: str, context: str, **more: Any) -> One:
        """Return the answer to a question in a passage."""
        return self.ask("/answer", input={"question": question, "context": context}, **more)

    def generate(self, input: Any, **more: Any) -> One:
        """Return texts that continue prompts; `stream` is not supported."""
        return self.ask("/generate", input=input, **more)

    def text2text(self, input: Any, **more: Any) -> One:
        """Return the targets that a model of `finetune generation` writes for sources."""
        return self.ask("/text2text", input=input, **more)

    def translate(self, input: Any, **more: Any) -> One:
        """Return the translations of sentences."""
        return self.ask("/translate", input=input, **more)

    def rerank(self, query: str, documents: list[str], **more: Any) -> One:
        """Return documents, the most relevant first."""
        return self.ask("/rerank", query=query, documents=documents, **more)

    def similarity(self, input: list[str], **more: Any) -> One:
        """Return the cosines of all pairs of texts."""
        return self.ask("/similarity", input=input, **more)

    async def _request(self, method: str, path: str, body: bytes) -> Reply:
        end = time.monotonic() + self.timeout
        attempt = 0
        while True:
            left = end - time.monotonic()
            wait = min(5.0, 0.1 * 2**attempt) * (0.5 + random.random())
            try:
                async with asyncio.timeout(left):
                    headers = {"X-Timeout": f"{max(0.001, left):.3f}"}
                    reply = await self._connected().request(
                        method, self._url + path, content=body, headers=headers
                    )
                return _content(reply)
            except TimeoutError:
                last = ServerError(0, "timeout", f"it took more than {self.timeout:g} seconds")
            except httpx.HTTPError as error:
                last = ServerError(0, "unreachable", f"{type(error).__name__}: {error}")
            except ServerError as error:
                if error.status not in RETRIED:
                    raise
                last = error
                with suppress(ValueError):  # a date
                    wait = max(wait, float(reply.headers.get("retry-after", "0")))
            if attempt == self.retries or time.monotonic() + wait >= end:
                raise last
            await asyncio.sleep(wait)
            attempt += 1

    def _connected(self) -> httpx.AsyncClient:
        """Return the connections of the running event loop; those of another cannot be used."""
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            headers = {b"Accept-Encoding": b"identity", b"Content-Type": b"application/json"}
            if self._key is not None:
                headers[b"Authorization"] = f"Bearer {self._key}".encode()
            limits = httpx.Limits(max_connections=MAX_CONNECTIONS)
            is_tls = self._url.startswith("https")  # else no certificates have to be read
            self._loop = loop
            self._http = httpx.AsyncClient(
                headers=headers, limits=limits, timeout=None, verify=is_tls, trust_env=False
            )
        return self._http

    async def _disconnect(self) -> None:
        if self._http is not None and self._loop is asyncio.get_running_loop():
            await self._http.aclose()
        self._http = None


class Client(_BaseClient[Reply], AbstractContextManager["Client"]):
    """Sends requests to one server; threads may share it."""

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(call, _background())
        try:
            return future.result()
        finally:
            future.cancel()  # where an interrupt came before the result

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient(_BaseClient[Awaitable[Reply]], AbstractAsyncContextManager["AsyncClient"]):
    """Sends requests from one event loop at a time: `await client.embed(["a text"])`."""

    def _run(self, call: T) -> T:
        return call

    async def __aexit__(self, *error: object) -> None:
        await self.close()


@lru_cache(maxsize=1)
def _background() -> asyncio.AbstractEventLoop:
    """Return the event loop of all `Client`s of a process, which runs in a daemon thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


if hasattr(os, "register_at_fork"):  # a forked process has no such thread
    os.register_at_fork(after_in_child=_background.cache_clear)


def _content(reply: httpx.Response) -> Reply:
    """Return the object of a reply; `ServerError` for an error, or the reply of another server."""
    try:
        content: Reply = reply.json()
        if reply.is_success and isinstance(content, dict):
            return content
        code, message = (str(content["error"][name]) for name in ("code", "message"))
    except (ValueError, KeyError, TypeError):
        kind, location = (reply.headers.get(name) for name in ("content-type", "location"))
        where = f", which leads to {location}" if location else ""
        code = "unknown"
        message = f"a reply of type {kind}{where}; expected the JSON of a bertwright server"
    raise ServerError(reply.status_code, code, message)
