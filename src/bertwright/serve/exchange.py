"""How the client asks and is answered: HTTP/1.1 written once, over a socket or asyncio's streams.

The standard library's `http.client` counts its time anew for every piece that arrives, and blocks;
here all of an exchange is done at one moment, or fails.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
PIECE = 1 << 16
"""Bytes received at once; no line of a head is longer."""
LINES = 200
"""Lines a head may have."""


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int
    tls: ssl.SSLContext | None


class Answer(NamedTuple):
    """A whole reply; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    content: bytearray


class Connection(ABC):
    """HTTP/1.1 over a connection that may serve many exchanges, one after another."""

    def __init__(self, end: float) -> None:
        """To be done at `end`, on the clock of `time.monotonic`."""
        self.end = end
        self.reusable = False
        """Whether the last exchange came to its end and the server keeps the connection open."""
        self._unread = bytearray()

    async def exchange(self, request: bytes) -> Answer:
        """Send a request, receive its reply.

        Raises:
            TimeoutError: it was not done at `end`.
            OSError: the connection broke, or what came is no HTTP.
        """
        self.reusable = False
        with suppress(ConnectionError):  # a server may hang up on a body after it said why
            await self._send(request)
        status = 100
        while status < 200:
            version, status = _status(await self._line())
            headers = await self._headers()
        bounded = True
        if status in (204, 304):
            content = bytearray()
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            content = await self._chunks()
        elif "content-length" in headers:
            content = await self._exactly(_number(headers["content-length"], 10))
        else:
            content, bounded = await self._rest(), False
        closes = "close" in headers.get("connection", "").lower()
        self.reusable = bounded and not closes and version == b"HTTP/1.1" and not self._unread
        return Answer(status, headers, content)

    @abstractmethod
    def close(self) -> None:
        """End it at once."""

    @abstractmethod
    async def _send(self, data: bytes) -> None: ...

    @abstractmethod
    async def _receive(self) -> bytes:
        """Some bytes; none where the other side has closed."""

    async def _more(self) -> None:
        piece = await self._receive()
        if not piece:
            raise ConnectionResetError("closed before the reply was complete")
        self._unread += piece

    async def _line(self) -> bytes:
        while (end := self._unread.find(b"\n")) < 0:
            if len(self._unread) > PIECE:
                raise ConnectionError(f"no HTTP: a line of more than {PIECE} bytes")
            await self._more()
        return bytes(await self._exactly(end + 1)).strip()

    async def _headers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for _ in range(LINES):
            line = await self._line()
            if not line:
                return found
            name, _, value = line.decode("latin-1").partition(":")
            found[name.lower()] = value.strip()
        raise ConnectionError(f"no HTTP: a head of more than {LINES} lines")

    async def _exactly(self, size: int) -> bytearray:
        while len(self._unread) < size:
            await self._more()
        taken = self._unread[:size]
        del self._unread[:size]
        return taken

    async def _chunks(self) -> bytearray:
        content = bytearray()
        while size := _number((await self._line()).partition(b";")[0].decode("latin-1"), 16):
            content += await self._exactly(size)
            await self._line()
        await self._headers()
        return content

    async def _rest(self) -> bytearray:
        while piece := await self._receive():
            self._unread += piece
        return await self._exactly(len(self._unread))


class BlockingConnection(Connection):
    """Over a socket, each step of which has the time that is left; see `finish`."""

    def __init__(self, address: Address, end: float) -> None:
        """Connect.

        Raises:
            TimeoutError: it was not done at `end`.
            OSError: nothing listens there.
        """
        super().__init__(end)
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        for number, (family, kind, protocol, _, place) in enumerate(found, 1):
            self._socket = socket.socket(family, kind, protocol)
            try:
                self._timed().connect(place)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if address.tls is not None:
                    tls, plain = address.tls, self._timed()
                    self._socket = tls.wrap_socket(plain, server_hostname=address.host)
                break
            except OSError:
                self.close()
                if number == len(found):
                    raise

    def close(self) -> None:
        """End it at once."""
        self._socket.close()

    async def _send(self, data: bytes) -> None:
        unsent = memoryview(data)
        while unsent:
            unsent = unsent[self._timed().send(unsent) :]

    async def _receive(self) -> bytes:
        return self._timed().recv(PIECE)

    def _timed(self) -> socket.socket:
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        return self._socket


class StreamConnection(Connection):
    """Over the streams of asyncio; who awaits it bounds its time."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: float
    ) -> None:
        """See `open`."""
        super().__init__(end)
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, address: Address, end: float) -> StreamConnection:
        """Connect.

        Raises:
            OSError: nothing listens there.
        """
        host, port, tls = address
        reader, writer = await asyncio.open_connection(host, port, ssl=tls, limit=PIECE)
        return cls(reader, writer, end)

    def close(self) -> None:
        """End it at once; the event loop closes the socket when it comes to it."""
        self._writer.transport.abort()

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)  # without waiting: a reply may come before all is sent

    async def _receive(self) -> bytes:
        return await self._reader.read(PIECE)


def finish(work: Coroutine[Any, Any, T]) -> T:
    """The result of what blocks and so never waits for an event loop."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    work.close()
    raise RuntimeError("blocking work waited for an event loop")


def _status(line: bytes) -> tuple[bytes, int]:
    version, _, rest = line.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise ConnectionError("no HTTP: the reply has no status")
    return version, int(rest[:3])


def _number(text: str, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        number = -1
    if number < 0:
        raise ConnectionError("no HTTP: a length that is no number")
    return number
