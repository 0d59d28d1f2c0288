"""Clients that hold a web server up, for `web_servers.py`; they run in a process of their own."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import uvloop

POST = b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LARGE = b"POST /large HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
Figures = dict[str, Any]


class Silent(NamedTuple):
    """Connections that send some bytes, and perhaps one a second after them, and read nothing."""

    first: bytes
    drip: bytes = b""
    connections: int = 1000


SILENT = {
    "idle": Silent(b""),
    "half a head": Silent(POST),
    "slow head": Silent(POST + b"X: ", b"x"),
    "half a body": Silent(POST + b"Content-Length: 9999\r\n\r\n{"),
    "slow body": Silent(POST + b"Content-Length: 9999\r\n\r\n{", b" "),
    "half a chunk": Silent(CHUNKED + b"5\r\n{"),
    "reads nothing": Silent(
        b"POST /large HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", connections=8
    ),
}


class Flood(NamedTuple):
    """Connections that send as much as a server takes, again and again."""

    first: bytes
    more: bytes
    connections: int = 4


FLOODS = {
    "endless head": Flood(GET, b"x: y\r\n" * 2500),
    "endless header": Flood(GET + b"x: ", b"y" * 16384),
    "tiny chunks": Flood(CHUNKED, b"1\r\n \r\n" * 2500),
    "chunk extensions": Flood(CHUNKED, (b"1;" + b"e" * 200 + b"\r\n \r\n") * 80),
    "trailers after chunks": Flood(CHUNKED + b"1\r\n \r\n" * 10_000 + b"0\r\n", b"x: y\r\n" * 2500),
    "many at once": Flood(b"", (GET + b"\r\n") * 400),
}
MOST = 32_000_000
"""Bytes that a flooding connection sends at most."""

CODING = POST + b"Transfer-Encoding: "
WRONG = {
    "no Host": b"GET /livez HTTP/1.1\r\n\r\n",
    "two Hosts": GET + b"Host: y\r\n\r\n",
    "a Host that is none": b"GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n",
    "gzip, chunked": CODING + b"gzip, chunked\r\n\r\n0\r\n\r\n",
    "gzip": CODING + b"gzip\r\n\r\n0\r\n\r\n",
    "chunked, gzip": CODING + b"chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked with a length": CODING + b"chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": b"POST /livez HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Upgrade: h2c": POST
    + b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"
    + b"Upgrade: h2c\r\nContent-Length: 13\r\n\r\n"
    + b'{"input":"a"}',
    "no HTTP": b"nonsense\r\n\r\n",
}
"""Heads that are to be refused: a proxy may read another request from them, or a client waits."""


async def be_silent(port: int, attack: Silent, seconds: float) -> Figures:
    """Keep connections open; `closed` is how many of them the server closed within `seconds`."""

    async def one() -> float | None:
        start = time.monotonic()
        reads = attack is not SILENT["reads nothing"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(attack.first)
        ended = asyncio.ensure_future(reader.read() if reads else asyncio.sleep(seconds + 1))
        while not (await asyncio.wait([ended], timeout=1))[0]:
            if time.monotonic() > start + seconds:
                break
            writer.write(attack.drip)
        lived = time.monotonic() - start
        writer.transport.abort()
        if ended.done():
            with suppress(OSError):
                ended.result()
            return lived
        ended.cancel()
        return None

    lived = await asyncio.gather(
        *(one() for _ in range(attack.connections)), return_exceptions=True
    )
    closed = [each for each in lived if isinstance(each, float)]
    return {"closed": len(closed), "of": attack.connections, "longest": max(closed, default=None)}


async def flood(port: int, attack: Flood, seconds: float) -> Figures:
    """Send without end; gives the longest life of a connection in seconds, and the statuses."""
    end, statuses, longest = time.monotonic() + seconds, Counter[str](), 0.0

    async def one() -> None:
        nonlocal longest
        while time.monotonic() < end:
            start = time.monotonic()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            first = asyncio.ensure_future(reader.read(12))
            writer.write(attack.first)
            sent, status = len(attack.first), "no reply"
            with suppress(OSError, TimeoutError):
                while sent < MOST and time.monotonic() < end and not writer.is_closing():
                    if first.done() and attack.first:
                        break
                    writer.write(attack.more)
                    async with asyncio.timeout_at(asyncio.get_running_loop().time() + seconds):
                        await writer.drain()
                    sent += len(attack.more)
            with suppress(OSError):
                await asyncio.wait([first], timeout=2)
                if first.done():
                    status = first.result()[9:12].decode() or "closed"
                else:
                    first.cancel()
            longest = max(longest, time.monotonic() - start)
            statuses[status] += 1
            writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(attack.connections)))
    return {"longest": longest, "statuses": dict(statuses)}


async def send_wrong_heads(port: int, seconds: float) -> Figures:
    """Send heads that are wrong; gives the status of each, or how it ended."""
    found = {}
    for name, head in WRONG.items():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        try:
            async with asyncio.timeout(seconds):
                found[name] = (await reader.read(12))[9:12].decode() or "closed"
        except TimeoutError:
            found[name] = "no reply"
        except OSError:
            found[name] = "closed"
        writer.transport.abort()
    return found


async def read_streams(port: int, lengths: list[float]) -> list[str]:
    """Read streams of so many seconds, and give how each ended."""

    async def one(seconds: float) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = b"POST /stream?seconds=%g HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" % seconds
        writer.write(head)
        content = b""
        with suppress(OSError):
            while not content.endswith(b"0\r\n\r\n"):
                part = await reader.read(65536)
                if not part:
                    break
                content += part
        writer.transport.abort()
        if not content.endswith(b"0\r\n\r\n"):
            return "cut"
        return "done" if b"[DONE]" in content else "told" if b"draining" in content else "ended"

    return list(await asyncio.gather(*(one(each) for each in lengths)))


class Aside:
    """A coroutine that runs in a process of its own."""

    def __init__(self, make: Callable[..., Awaitable[Any]], *args: Any) -> None:
        context = multiprocessing.get_context("fork")
        self.end, other = context.Pipe()
        self.process = context.Process(target=_run, args=(other, make, args))
        self.process.start()
        other.close()

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self.end.poll()

    def result(self) -> Any:
        """Wait for its result."""
        found = self.end.recv()
        self.process.join()
        return found


def _run(end: Connection, make: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    end.send(uvloop.run(make(*args)))  # type: ignore[arg-type]
