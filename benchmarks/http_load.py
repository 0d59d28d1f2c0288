"""Load for a server of HTTP: httpx for few requests, `Generator` where the cost of each counts.

The generator uses sockets and epoll without an event loop: it shares its cores with the server, and
a task, a future and a timer a request would cost as much as the server's 429.
"""

from __future__ import annotations

import asyncio
import select
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import numpy as np

REFUSED = (429, 503)
TICK = 0.005
"""Seconds between arrivals at least; those due in them come together."""
PAUSE = 0.05
"""Seconds before a client whose request failed sends another; the others wait as well."""
T = TypeVar("T")
Ask = Callable[[int], Awaitable[Any]]
"""Sends the request of a number."""


class Pool(httpx.AsyncClient):
    """Keep-alive connections to one server, as many as are used at once."""

    def __init__(self, url: str) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        super().__init__(base_url=url, limits=limits, timeout=120.0, trust_env=False)

    def make(self, path: str, body: Any = None, key: str = "") -> httpx.Request:
        """A POST of an object, or a GET."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        method = "GET" if body is None else "POST"
        return self.build_request(method, path, json=body, headers=headers)


def as_bytes(request: httpx.Request) -> bytes:
    """A request as it is sent."""
    first = b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)
    lines = [first, *(b"%s: %s" % pair for pair in request.headers.raw)]
    return b"\r\n".join([*lines, b"", b""]) + request.content


@dataclass(slots=True)
class Asked:
    """A connection, and the request that it carries."""

    socket: socket.socket
    start: float = 0.0
    buffer: bytes = b""


class Generator:
    """Connections to one server; one a request, and kept for others after its reply."""

    def __init__(
        self,
        host: str,
        port: int,
        requests: Sequence[bytes],
        on_reply: Callable[[int, float], None],
    ) -> None:
        """Nothing is sent yet.

        Args:
            host: of the server.
            port: its port.
            requests: sent in turn.
            on_reply: called with the status and seconds of each reply; 0 where the server hung up.
        """
        self.address, self.requests, self.on_reply = (host, port), requests, on_reply
        self.poll = select.epoll()
        self.free: list[Asked] = []
        self.waiting: dict[int, Asked] = {}
        """By number of its descriptor."""
        self.asked = 0
        self.again = False
        """Whether each answer is followed by a request, up to the time `until`."""
        self.until = 0.0

    def callers(self, count: int, seconds: float) -> float:
        """So many callers for so long, each asking again as soon as it is answered.

        Returns:
            Seconds until the last was answered.
        """
        start = time.monotonic()
        self.until, self.again = start + seconds, True
        for _ in range(count):
            self._ask()
        self.collect(float("inf"))
        self.again = False
        return time.monotonic() - start

    def arrive(self, rate: float, seconds: float) -> None:
        """Ask so many a second for so long; replies that are late may be collected after it."""
        start, sent = time.monotonic(), 0
        while (now := time.monotonic()) < start + seconds:
            due = int((now - start) * rate) + 1
            for _ in range(sent, due):
                self._ask()
            sent = max(sent, due)
            self.collect(max(now + TICK, start + sent / rate))

    def collect(self, end: float) -> None:
        """Read replies until a time, or until none is awaited if that is infinite."""
        while (left := end - time.monotonic()) > 0:
            if left == float("inf") and not self.waiting:
                return
            for number, _ in self.poll.poll(min(left, 1.0)):
                self._read(number)

    def close(self) -> None:
        """Hang up."""
        for each in [*self.free, *self.waiting.values()]:
            each.socket.close()
        self.poll.close()

    def _ask(self) -> None:
        request = self.requests[self.asked % len(self.requests)]
        self.asked += 1
        while self.free:
            asked = self.free.pop()
            if not _is_closed(asked.socket):
                break
            self._hang_up(asked)
        else:
            asked = Asked(socket.create_connection(self.address))
            asked.socket.setblocking(False)
            self.poll.register(asked.socket.fileno(), select.EPOLLIN)
        asked.start = time.monotonic()
        self.waiting[asked.socket.fileno()] = asked
        try:
            asked.socket.sendall(request)
        except OSError:
            self._end(asked, 0)

    def _read(self, number: int) -> None:
        asked = self.waiting.get(number)
        if asked is None:  # the server hung up on one that was free
            for gone in [each for each in self.free if each.socket.fileno() == number]:
                self.free.remove(gone)
                self._hang_up(gone)
            return
        try:
            data = asked.socket.recv(65536)
        except BlockingIOError:  # the number was another's when the poll named it
            return
        except OSError:
            data = b""
        if not data:
            self._end(asked, 0)
            return
        buffer = asked.buffer = asked.buffer + data
        head = buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        lines = buffer[: head + 2].lower()
        start = lines.index(b"\r\ncontent-length:") + 17
        length = int(lines[start : lines.index(b"\r", start)])
        if len(buffer) >= head + 4 + length:
            self._end(asked, int(buffer[9:12]), b"\r\nconnection: close" not in lines)

    def _end(self, asked: Asked, status: int, alive: bool = False) -> None:
        del self.waiting[asked.socket.fileno()]
        self.on_reply(status, time.monotonic() - asked.start)
        asked.buffer = b""
        if alive:
            self.free.append(asked)
        else:
            self._hang_up(asked)
        if self.again and time.monotonic() < self.until:
            if status != 200:
                time.sleep(PAUSE)
            self._ask()

    def _hang_up(self, asked: Asked) -> None:
        self.poll.unregister(asked.socket.fileno())
        asked.socket.close()


def _is_closed(connection: socket.socket) -> bool:
    """Whether the server hung up, as clients look before they use a connection again."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


class Seen:
    """What became of single sentences sent to /v1/embeddings."""

    def __init__(self, pool: Pool, texts: list[str], model: str | None) -> None:
        more = {"encoding_format": "base64", **({"model": model} if model else {})}
        self.pool = pool
        self.requests = [pool.make("/v1/embeddings", {"input": t, **more}) for t in texts]
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
            status = reply.status_code
        except httpx.HTTPError:
            status = 0
        self.count(status, time.monotonic() - start)
        return status

    def count(self, status: int, seconds: float) -> None:
        """One more; status 0 where there was no reply."""
        if status == 200:
            self.good.append(seconds)
        elif status in REFUSED:
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
