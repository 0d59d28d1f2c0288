"""Load for a server of HTTP: connections, callers, and what became of their requests.

A connection is a bare protocol of asyncio: the load shares its cores with the server, and a request
by a client of a package costs many times the server's 429.
"""

from __future__ import annotations

import asyncio
import json
import select
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import numpy as np

REFUSED = (429, 503)
TICK = 0.005
"""Seconds between arrivals at least; those due in them come together."""
PAUSE = 0.05
"""Seconds before a caller whose request failed sends another."""
Ask = Callable[[int], Awaitable[int]]
"""Sends the request of a number, and gives the status of its reply."""


class Reply(NamedTuple):
    """Status (0 where the server hung up), body, and seconds since the request was sent."""

    status: int
    body: bytes
    seconds: float


class Connection(asyncio.Protocol):
    """A connection, which carries one request at a time."""

    transport: asyncio.Transport
    reply: asyncio.Future[Reply] | None = None

    def __init__(self, free: list[Connection]) -> None:
        self.free = free
        """Where it waits for another request after its reply."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It may be used."""
        self.transport = cast(asyncio.Transport, transport)

    def is_open(self) -> bool:
        """Whether the server has not hung up: clients look before they use a connection again."""
        if self.transport.is_closing():
            return False
        end = select.poll()
        end.register(self.transport.get_extra_info("socket"), select.POLLIN)
        return not end.poll(0)

    def send(self, request: bytes) -> asyncio.Future[Reply]:
        """Send a request of HTTP."""
        self.buffer, self.start = b"", time.monotonic()
        self.reply = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.reply

    def data_received(self, data: bytes) -> None:
        """Read on; a reply says how long it is."""
        buffer = self.buffer = self.buffer + data
        head = buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        lines = buffer[: head + 2].lower()
        start = lines.index(b"\r\ncontent-length:") + 17
        length = int(lines[start : lines.index(b"\r", start)])
        if len(buffer) < head + 4 + length:
            return
        if b"\r\nconnection: close" in lines:
            self.transport.close()
        else:
            self.free.append(self)
        self._end(int(buffer[9:12]), buffer[head + 4 :])

    def connection_lost(self, error: Exception | None) -> None:
        """The server hung up."""
        if self in self.free:
            self.free.remove(self)
        self._end(0, b"")

    def _end(self, status: int, body: bytes) -> None:
        if self.reply and not self.reply.done():
            self.reply.set_result(Reply(status, body, time.monotonic() - self.start))


class Client:
    """Keep-alive connections to one server, as many as are used at once."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 80
        self.free: list[Connection] = []

    def make(self, path: str, body: Any = None) -> bytes:
        """A POST of an object, or a GET."""
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{'POST' if content else 'GET'} {path} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content

    async def send(self, request: bytes) -> Reply:
        """The reply to a request, by a connection that is free, or a new one."""
        while self.free:
            connection = self.free.pop()
            if connection.is_open():
                return await connection.send(request)
        loop = asyncio.get_running_loop()
        made = await loop.create_connection(lambda: Connection(self.free), self.host, self.port)
        return await made[1].send(request)


class Seen:
    """What became of single sentences sent to /v1/embeddings."""

    def __init__(self, url: str, texts: list[str], model: str | None) -> None:
        more = {"encoding_format": "base64", **({"model": model} if model else {})}
        self.client = Client(url)
        self.requests = [self.client.make("/v1/embeddings", {"input": t, **more}) for t in texts]
        self.good: list[float] = []
        self.refused: list[float] = []
        self.others: dict[str, int] = {}

    async def ask(self, number: int) -> int:
        """Send one, and count what became of it."""
        status, _, seconds = await self.client.send(self.requests[number % len(self.requests)])
        if status == 200:
            self.good.append(seconds)
        elif status in REFUSED:
            self.refused.append(seconds)
        else:
            self.others[str(status)] = self.others.get(str(status), 0) + 1
        return status

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


async def callers(count: int, seconds: float, ask: Ask) -> float:
    """So many callers, each asking again as soon as it is answered; seconds to the last reply."""
    start = time.monotonic()

    async def one(number: int) -> None:
        while time.monotonic() < start + seconds:
            if await ask(number) != 200:
                await asyncio.sleep(PAUSE)
            number += count

    await asyncio.gather(*(one(number) for number in range(count)))
    return time.monotonic() - start


async def arrive(rate: float, seconds: float, ask: Ask) -> set[asyncio.Task[int]]:
    """Ask so many a second for so long, whatever is answered; those that then still wait."""
    start, sent = time.monotonic(), 0
    waiting: set[asyncio.Task[int]] = set()
    while (now := time.monotonic()) < start + seconds:
        due = int((now - start) * rate) + 1
        for number in range(sent, due):
            task = asyncio.ensure_future(ask(number))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        sent = max(sent, due)
        await asyncio.sleep(max(TICK, start + sent / rate - now))
    return waiting
