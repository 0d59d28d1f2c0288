"""A client of the server: the standard library only, no torch.

    client = Client("http://127.0.0.1:8080", key="...")
    client.embed(["a text", "another"], layers=[-2])["vectors"]

Replies are those of the server, as dictionaries (docs/serving.md). What the server refuses for now
(429, 503) and connections that break before an answer are tried again, after Retry-After or longer
and longer; every request has a time in which all of it must be done.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote, urlsplit

from bertwright.errors import BertwrightError, ConfigError
from bertwright.serve.exchange import (
    Address,
    Answer,
    BlockingConnection,
    Connection,
    StreamConnection,
    finish,
)

Reply = dict[str, Any]
AGAIN = (429, 503)
AT_ONCE = 100
"""Connections of an `AsyncClient`; further requests wait for one, in their own time."""
One = TypeVar("One")
Many = TypeVar("Many")


class ServerError(BertwrightError):
    """The server said no, said what nobody understands, or did not answer in time."""

    def __init__(self, status: int, code: str, message: str) -> None:
        said = f"the server says {status} ({code})" if status else f"no answer ({code})"
        super().__init__(f"{said}: {message}")
        self.status, self.code = status, code
        """The status is 0 where there was no answer."""


class _Caller(ABC, Generic[One, Many]):
    """What both clients are: they give a reply as `One`, a list of them as `Many`."""

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
            ConfigError: no such kind of address or key, no time at all, or fewer tries than one.
        """
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").encode("idna").decode(), parts.port
        except (ValueError, AttributeError) as error:  # the latter where it is no text
            raise ConfigError(f"url is {url!r}; expected http://HOST:PORT: {error}") from error
        more = "@" in parts.netloc or parts.query or parts.fragment  # would be left out
        if parts.scheme not in ("http", "https") or not host or more:
            raise ConfigError(f"url is {url!r}; expected http://HOST:PORT")
        if not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf"):
            raise ConfigError(f"timeout is {timeout!r}; expected seconds above 0")
        if not isinstance(retries, int) or retries < 0:
            raise ConfigError(f"retries is {retries!r}; expected a whole number, 0 or more")
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._address = Address(host, port or (443 if tls else 80), tls)
        self._path = parts.path.rstrip("/")
        named = f"[{host}]" if ":" in host else host
        self._head = [f"Host: {named}" if port is None else f"Host: {named}:{port}"]
        self._head += ["Accept-Encoding: identity", "Content-Type: application/json"]
        if key is not None:
            if not (isinstance(key, str) and key.isprintable() and max(key, default="") <= "\xff"):
                raise ConfigError("key has characters that no header can carry; expected a line")
            self._head.append(f"Authorization: Bearer {key}")
        self._url, self._key = url, key
        self.model, self.timeout, self.retries = model, timeout, retries
        self._idle: list[Connection] = []

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        """A copy, in another process too, has the settings, and connections of its own."""
        settings: dict[str, Any] = {"timeout": self.timeout, "retries": self.retries}
        return partial(type(self), self._url, key=self._key, model=self.model, **settings), ()

    @abstractmethod
    def ask(self, path: str, **body: Any) -> One:
        """Any route.

        Raises:
            ServerError: it said no, or did not answer in time.
        """

    @abstractmethod
    def models(self) -> Many:
        """The models there are."""

    def embed(self, input: Any, **more: Any) -> One:
        """Vectors of texts and pairs: `layers`, `pooling`, `normalize`, `truncate`, `dtype`."""
        return self.ask("/embed", input=input, **more)

    def tokens(self, input: Any, **more: Any) -> One:
        """A vector a token."""
        return self.ask("/tokens", input=input, **more)

    def tokenize(self, input: Any, **more: Any) -> One:
        """Tokens, ids and offsets."""
        return self.ask("/tokenize", input=input, **more)

    def fill_mask(self, input: Any, **more: Any) -> One:
        """The likeliest tokens of blanks."""
        return self.ask("/fill-mask", input=input, **more)

    def next_sentence(self, first: str, second: str, **more: Any) -> One:
        """Whether one text follows another."""
        return self.ask("/next-sentence", input=[first, second], **more)

    def classify(self, input: Any, **more: Any) -> One:
        """Classes of texts and pairs."""
        return self.ask("/classify", input=input, **more)

    def tag(self, input: Any, **more: Any) -> One:
        """Tags and entities."""
        return self.ask("/tag", input=input, **more)

    def answer(self, question: str, context: str, **more: Any) -> One:
        """An answer out of a passage."""
        return self.ask("/answer", question=question, context=context, **more)

    def rerank(self, query: str, documents: list[str], **more: Any) -> One:
        """Documents, the most relevant first."""
        return self.ask("/rerank", query=query, documents=documents, **more)

    def similarity(self, input: list[str], **more: Any) -> One:
        """Cosines, each with each."""
        return self.ask("/similarity", input=input, **more)

    def attention(self, input: Any, **more: Any) -> One:
        """Who attends to whom."""
        return self.ask("/attention", input=input, **more)

    @abstractmethod
    async def _connect(self, end: float) -> Connection: ...

    @abstractmethod
    async def _sleep(self, seconds: float) -> None: ...

    async def _ask(self, path: str, body: dict[str, Any]) -> Reply:
        if self.model is not None:
            body = {"model": self.model, **body}
        return await self._request("POST", path, json.dumps(body).encode())

    async def _models(self) -> list[Reply]:
        found = (await self._request("GET", "/v1/models", b"")).get("data")
        if not isinstance(found, list):
            raise ServerError(200, "unknown", "a reply without a list of models")
        return found

    async def _request(self, method: str, path: str, body: bytes) -> Reply:
        end = time.monotonic() + self.timeout
        tried = 0
        while True:
            wait = min(5.0, 0.1 * 2**tried) * (0.5 + random.random())
            try:
                answer = await self._exchange(method, path, body, end)
            except TimeoutError:
                last = ServerError(0, "timeout", f"it took more than {self.timeout:g} seconds")
            except OSError as error:
                last = ServerError(0, "unreachable", f"{type(error).__name__}: {error}")
            else:
                if 200 <= answer.status < 300:
                    return _reply(answer)
                last = _refused(answer)
                if answer.status not in AGAIN:
                    raise last
                wait = max(wait, _seconds(answer.headers.get("retry-after", "")))
            if tried == self.retries or time.monotonic() + wait >= end:
                raise last
            await self._sleep(wait)
            tried += 1

    async def _exchange(self, method: str, path: str, body: bytes, end: float) -> Answer:
        try:
            kept = self._idle.pop()
        except IndexError:
            kept = None
        if kept is not None:
            with suppress(ConnectionError, ssl.SSLError):  # closed while nobody asked
                return await self._over(kept, method, path, body, end)
        return await self._over(await self._connect(end), method, path, body, end)

    async def _over(
        self, connection: Connection, method: str, path: str, body: bytes, end: float
    ) -> Answer:
        left = max(0.001, end - time.monotonic())
        target = quote(self._path + path, safe="/?=&%+,:;@!$'()*~")
        head = [f"{method} {target} HTTP/1.1", *self._head, f"X-Timeout: {left:.3f}"]
        if body:
            head.append(f"Content-Length: {len(body)}")
        connection.end = end
        try:
            return await connection.exchange("\r\n".join([*head, "", ""]).encode("latin-1") + body)
        finally:
            if connection.reusable:
                self._idle.append(connection)
            else:
                connection.close()

    def _hang_up(self) -> None:
        with suppress(IndexError):  # none is left
            while True:
                self._idle.pop().close()


class Client(_Caller[Reply, list[Reply]]):
    """Asks one server; may be shared by threads: no two requests use a connection at once."""

    _process = os.getpid()

    def ask(self, path: str, **body: Any) -> Reply:
        """Any route.

        Raises:
            ServerError: it said no, or did not answer in time.
        """
        return finish(self._ask(path, body))

    def models(self) -> list[Reply]:
        """The models there are."""
        return finish(self._models())

    def close(self) -> None:
        """Close the connections that are kept for further requests."""
        self._hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def _exchange(self, method: str, path: str, body: bytes, end: float) -> Answer:
        if self._process != os.getpid():  # after a fork the connections are the other process's
            self._process = os.getpid()
            self._hang_up()
        return await super()._exchange(method, path, body, end)

    async def _connect(self, end: float) -> Connection:
        return BlockingConnection(self._address, end)

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class AsyncClient(_Caller[Coroutine[Any, Any, Reply], Coroutine[Any, Any, list[Reply]]]):
    """The same for asyncio, of one event loop at a time: `await client.embed(["a text"])`."""

    _loop: asyncio.AbstractEventLoop | None = None
    _free: asyncio.Semaphore

    async def ask(self, path: str, **body: Any) -> Reply:
        """Any route.

        Raises:
            ServerError: it said no, or did not answer in time.
        """
        return await self._ask(path, body)

    async def models(self) -> list[Reply]:
        """The models there are."""
        return await self._models()

    async def close(self) -> None:
        """Close the connections that are kept for further requests."""
        self._here()
        self._hang_up()
        await asyncio.sleep(0)  # the event loop closes what was ended

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _here(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # connections belong to the event loop that opened them
            self._loop, self._idle, self._free = loop, [], asyncio.Semaphore(AT_ONCE)
        return self._free

    async def _exchange(self, method: str, path: str, body: bytes, end: float) -> Answer:
        async with asyncio.timeout(end - time.monotonic()), self._here():
            return await super()._exchange(method, path, body, end)

    async def _connect(self, end: float) -> Connection:
        return await StreamConnection.open(self._address, end)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _reply(answer: Answer) -> Reply:
    try:
        found = json.loads(answer.content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _strange(answer)
    return found


def _refused(answer: Answer) -> ServerError:
    try:
        error = json.loads(answer.content)["error"]
        return ServerError(answer.status, str(error["code"]), str(error["message"]))
    except (ValueError, KeyError, TypeError):
        return _strange(answer)


def _strange(answer: Answer) -> ServerError:
    kind, place = (answer.headers.get(name) for name in ("content-type", "location"))
    message = f"a reply of kind {kind}; expected the JSON of a bertwright server"
    if place is not None:
        message += f"; it points to {place}: give the url where that server is"
    return ServerError(answer.status, "unknown", message)


def _seconds(text: str) -> float:
    """Of Retry-After: a number of seconds, or a date; 0 where it says neither."""
    try:
        if text[-1:].isdigit():
            return float(text)
        return parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
