"""A connection of a caller, which has bounds that uvicorn's lacks.

| what a caller does | what happens |
|---|---|
| asks a server that is full | 429 at once, at a third of the cost of the way through the door |
| sends its headers too slowly, or nothing | the connection is closed |
| asks again just as its connection is to be closed | its request is answered |
| sends more than 64 KB of headers | 431 |
| does not take its reply | the connection is cut, and its memory freed |
| asks for another protocol (`Upgrade: h2c`, as Java's client does) | plain HTTP/1.1 answers |
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from functools import lru_cache
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bertwright.config.serve import ServeConfig
from bertwright.serve.errors import Refusal, bad
from bertwright.serve.middleware import HEADERS, Door, raw_headers, refusal_body, refusal_headers

HEAD = 65536
"""Bytes of the address and headers of a request."""


class ServerConnection(HttpToolsProtocol):
    """uvicorn's protocol, with bounds."""

    door: Door | None = None
    header_seconds: float
    reply_seconds: float
    in_head = False
    heads = 0
    """Heads that were read."""
    head = 0
    """Bytes of the head that is being read, but for those that came with the end of another."""
    received = 0
    turned_away = False
    """Whether the request whose body comes has its reply already."""
    slow_head: asyncio.TimerHandle | None = None
    slow_reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio, as of all here."""
        super().connection_made(transport)
        self.slow_head = self.loop.call_later(self.header_seconds, self.close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        for timer in (self.slow_head, self.slow_reader):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of heads and bodies."""
        self._unset_keepalive_if_required()
        before, self.received, left = self.heads, len(data), memoryview(data)
        try:
            while left:
                left = self.feed(left)
        except httptools.HttpParserError:
            large = self.in_head and self.head > HEAD
            self.refuse(too_large() if large else bad("this is not HTTP/1.1", "bad_http"))
            return
        self.head += self.received
        if self.in_head and self.head > HEAD:
            self.refuse(too_large())
        if self.heads == before:
            if self.slow_head is None and not self.is_at_work:
                self.slow_head = self.loop.call_later(self.header_seconds, self.close_if_idle)
        elif self.slow_head is not None:
            self.slow_head.cancel()
            self.slow_head = None

    def feed(self, data: memoryview) -> memoryview:
        """Parse up to the end, or up to the end of a head that asks for another protocol, which is
        then parsed again without that wish: the parser would take its body for the new protocol."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if not self.is_upgrade:
                return memoryview(b"")
            version = self.parser.get_http_version().encode()
            lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
            lines += [b"%s: %s" % pair for pair in self.headers if pair[0] != b"upgrade"]
            self.parser.feed_data(b"\r\n".join(lines) + b"\r\n\r\n")
            return data[upgrade.args[0] :]
        return memoryview(b"")

    @property
    def is_upgrade(self) -> bool:
        """Whether the request asks for another protocol; CONNECT asks for a tunnel."""
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def on_message_begin(self) -> None:
        """A head begins, somewhere in what was received."""
        self.in_head, self.head = True, -self.received
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head ends."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > HEAD:
            self.head = size
            raise ValueError(size)
        self.in_head = False
        if self.is_upgrade:
            return
        self.heads += 1
        self.turned_away = self.door is not None and self.door.is_full and self.turn_away(self.door)
        if not self.turned_away:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        if not self.turned_away:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """A body ends."""
        if not (self.is_upgrade or self.turned_away):
            super().on_message_complete()

    def turn_away(self, door: Door) -> bool:
        """Say no before a task is made for the request, where the door would say no."""
        # the replies to a caller come in the order of its requests, and wait for who does not read
        if self.is_at_work or self.flow.write_paused:
            return False
        method, path = self.parser.get_method(), httptools.parse_url(self.url).path
        refusal = door.turn_away(method.decode(), path.decode(), self.headers)
        if refusal is None:
            return False
        self.refuse(*refusal, close=not self.parser.should_keep_alive())
        if not self.transport.is_closing():
            self.on_response_complete()
        return True

    def on_response_complete(self) -> None:
        """A reply was handed to the transport."""
        super().on_response_complete()
        self.watch_reader()

    def pause_writing(self) -> None:
        """A reply waits for its reader."""
        super().pause_writing()
        self.watch_reader()

    def watch_reader(self, before: int | None = None) -> None:
        """Cut the connection when its reader took nothing of what waited at the last look."""
        waiting = self.transport.get_write_buffer_size()
        if self.slow_reader is not None:
            self.slow_reader.cancel()
            self.slow_reader = None
        if before is not None and waiting >= before:
            self.transport.abort()
        elif waiting:
            again = self.reply_seconds
            self.slow_reader = self.loop.call_later(again, self.watch_reader, waiting)

    @property
    def is_at_work(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def close_if_idle(self) -> None:
        """The time for a head is over."""
        self.slow_head = None
        if not self.is_at_work:
            self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        """The time between requests is over, unless one came since the loop last looked.

        The caller is told at once, not when the loop comes to closing, after all that is due in its
        turn: a request sent meanwhile would be lost.
        """
        if self.transport.is_closing():
            return
        with (
            suppress(OSError),  # no descriptor is left to look with, or the caller is gone
            self.transport.get_extra_info("socket").dup() as same,
        ):
            if is_asked(same):
                return
            if not self.transport.get_write_buffer_size():
                same.shutdown(socket.SHUT_WR)
        super().timeout_keep_alive_handler()

    def refuse(self, refusal: Refusal, path: str = "", name: str = "", close: bool = True) -> None:
        """Say no, of the request of that path and name; to what is no request, and close."""
        facts = refusal.status, refusal.code, refusal.message, refusal.retry_after
        head, body = reply_of(*facts, path[:4], close)
        lines = [b"%s: %s\r\n" % pair for pair in self.server_state.default_headers]
        if name:
            lines.append(b"x-request-id: %s\r\n" % name.encode())
        self.transport.write(head + b"".join(lines) + body)
        if close:
            self.transport.close()


def is_asked(connection: socket.socket) -> bool:
    """Whether bytes wait to be received."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


@lru_cache(64)
def reply_of(
    status: int, code: str, message: str, retry_after: int | None, path: str, close: bool
) -> tuple[bytes, bytes]:
    """A no up to the headers that are its own, and what follows them."""
    refusal = Refusal(status, code, message, retry_after)
    body = refusal_body(refusal, path)
    headers = [*HEADERS, *raw_headers(refusal_headers(refusal), body)]
    headers += [(b"connection", b"close")] * close
    lines = [b"%s: %s\r\n" % pair for pair in headers]
    return STATUS_LINE[status] + b"".join(lines), b"\r\n" + body


def bounded(config: ServeConfig, before: Door | None = None) -> type[ServerConnection]:
    """The connections of a server, before its door."""

    class Bounded(ServerConnection):
        door = before
        header_seconds = config.header_seconds
        reply_seconds = config.reply_seconds

    return Bounded


def too_large() -> Refusal:
    """431."""
    return Refusal(431, "headers_too_large", f"the headers have more than {HEAD} bytes")
