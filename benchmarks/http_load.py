"""A client of HTTP/1.1 that costs a server on the same processors little: keep-alive, bodies made
beforehand, replies with a length, nothing else of the protocol."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np

NO = (429, 503)
T = TypeVar("T")
Ask = Callable[[int], Awaitable[Any]]
"""Asks the request of a number."""


@dataclass
class Reply:
    """What came back."""

    status: int
    body: bytes

    def json(self) -> Any:
        """Its body, read."""
        return json.loads(self.body)


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.reply: asyncio.Future[Reply] | None = None
        self.buffer = b""
        self.head = self.length = 0
        self.alive = False
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See `asyncio`."""
        self.transport, self.alive = transport, True

    def ask(self, request: bytes, seconds: float) -> asyncio.Future[Reply]:
        """Send a whole request; its reply comes later."""
        assert self.transport is not None
        loop = asyncio.get_running_loop()
        self.reply = loop.create_future()
        self.timer = loop.call_later(seconds, self._end, TimeoutError("no reply in time"))
        self.transport.write(request)
        return self.reply

    def data_received(self, data: bytes) -> None:
        """See `asyncio`."""
        self.buffer = buffer = self.buffer + data if self.buffer else data
        if not self.head:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self.head = end + 4
            head = buffer[: self.head].lower()
            start = head.find(b"\r\ncontent-length:")
            if start < 0:
                self._end(ValueError("a reply without a length"))
                return
            self.length = int(head[start + 17 : head.index(b"\r", start + 17)])
            self.alive = b"\r\nconnection: close" not in head
        if len(buffer) < self.head + self.length:
            return
        reply = Reply(int(buffer[9:12]), buffer[self.head : self.head + self.length])
        self.buffer, self.head = b"", 0
        if self.timer is not None:
            self.timer.cancel()
        if not self.alive and self.transport is not None:
            self.transport.close()
        if self.reply is not None and not self.reply.done():
            self.reply.set_result(reply)

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio`."""
        self._end(error or ConnectionResetError("the server hung up"))

    def _end(self, error: Exception) -> None:
        self.alive = False
        if self.timer is not None:
            self.timer.cancel()
        if self.reply is not None and not self.reply.done():
            self.reply.set_exception(error)


@dataclass
class Pool:
    """Keep-alive connections to one server; as many as are asked at once."""

    url: str
    free: list[Connection] = field(default_factory=list)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        assert parts.scheme == "http", "the address is http://HOST:PORT"
        self.host, self.port = parts.hostname or "", parts.port or 80
        self.path = parts.path.rstrip("/")

    def request(self, path: str, given: Any = None, key: str = "") -> bytes:
        """A request as it is sent: a POST of an object, or a GET."""
        body = b"" if given is None else json.dumps(given).encode()
        method = "GET" if given is None else "POST"
        head = f"{method} {self.path}{path} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\n"
        if key:
            head += f"authorization: Bearer {key}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        return head.encode() + body

    async def send(self, request: bytes, seconds: float = 120.0) -> Reply:
        """Ask; over a connection of its own, kept for the next."""
        while self.free:
            connection = self.free.pop()
            if connection.alive:
                break
        else:
            connection = await self._connect()
        reply = await connection.ask(request, seconds)
        if connection.alive:
            self.free.append(connection)
        return reply

    async def post(self, path: str, given: Any, key: str = "") -> Reply:
        """Ask once."""
        return await self.send(self.request(path, given, key))

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(Connection, self.host, self.port))[1]

    async def __aenter__(self) -> Pool:
        return self

    async def __aexit__(self, *error: object) -> None:
        for connection in self.free:
            if connection.transport is not None:
                connection.transport.close()


class Seen:
    """What became of single sentences sent to /v1/embeddings."""

    def __init__(self, pool: Pool, texts: list[str], model: str | None) -> None:
        more = {"encoding_format": "base64", **({"model": model} if model else {})}
        self.pool = pool
        self.requests = [pool.request("/v1/embeddings", {"input": t, **more}) for t in texts]
        self.clear()

    def clear(self) -> None:
        """Forget."""
        self.good: list[float] = []
        self.refused: list[float] = []
        self.others: dict[str, int] = {}

    async def ask(self, number: int) -> int:
        """The status of one request; 0 where there was no reply."""
        start = time.monotonic()
        try:
            reply = await self.pool.send(self.requests[number % len(self.requests)])
            status = reply.status
        except OSError:
            status = 0
        self.count(status, time.monotonic() - start)
        return status

    def count(self, status: int, seconds: float) -> None:
        """One more; status 0 where there was no reply."""
        if status == 200:
            self.good.append(seconds)
        elif status in NO:
            self.refused.append(seconds)
        else:
            self.others[str(status)] = self.others.get(str(status), 0) + 1

    def figures(self, seconds: float) -> dict[str, Any]:
        """Rates and latencies."""
        return {
            "requests_per_second": len(self.good) / seconds,
            **quantiles("", self.good),
            "refused": len(self.refused),
            **quantiles("refused_", self.refused),
            "other_statuses": dict(self.others),
        }


def quantiles(name: str, seconds: list[float]) -> dict[str, float]:
    """p50 and p99 in milliseconds."""
    if not seconds:
        return {}
    return {f"{name}p{q}_ms": float(np.percentile(seconds, q)) * 1e3 for q in (50, 99)}


async def callers(count: int, seconds: float, ask: Ask) -> None:
    """So many callers, each asking again as soon as it is answered."""
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        while time.monotonic() < end:
            await ask(number)
            number += count

    await asyncio.gather(*(one(number) for number in range(count)))


def run(made: Coroutine[Any, Any, T]) -> T:
    """In an event loop of uvloop's, where that is installed."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.run(made)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(made)
