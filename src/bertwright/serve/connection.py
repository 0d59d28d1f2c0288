"""A connection of a caller, which has bounds that uvicorn's lacks.

| what a caller does | what happens |
|---|---|
| sends its headers too slowly, or nothing | the connection is closed |
| sends more than 64 KB of headers | 431 |
| does not take its reply | the connection is cut, and its memory freed |
| asks for another protocol (`Upgrade: h2c`, as Java's client does) | plain HTTP/1.1 answers |
"""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bertwright.config.serve import ServeConfig
from bertwright.serve.door import refusal_body, refusal_headers
from bertwright.serve.refusal import Refusal, bad

HEAD = 65536
"""Bytes of the address and headers of a request."""


class Connection(HttpToolsProtocol):
    """uvicorn's protocol, with bounds."""

    header_seconds: float
    reply_seconds: float
    in_head = False
    head = 0
    """Bytes of the head that is being read, but for those that came with the end of another."""
    received = 0
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
        if self.slow_head is None and not self.is_at_work:
            self.slow_head = self.loop.call_later(self.header_seconds, self.close_if_idle)
        before, self.received, left = self.cycle, len(data), memoryview(data)
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
        if self.slow_head is not None and self.cycle is not before:
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
        if not self.is_upgrade:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A body ends."""
        if not self.is_upgrade:
            super().on_message_complete()

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

    def refuse(self, refusal: Refusal) -> None:
        """Say no to what is not a request, and close."""
        body = refusal_body(refusal, "")
        headers = {**refusal_headers(refusal), "content-length": str(len(body))}
        headers["connection"] = "close"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(STATUS_LINE[refusal.status] + lines.encode() + b"\r\n" + body)
        self.transport.close()


def bounded(config: ServeConfig) -> type[Connection]:
    """The connections of a server."""

    class Bounded(Connection):
        header_seconds = config.header_seconds
        reply_seconds = config.reply_seconds

    return Bounded


def too_large() -> Refusal:
    """431."""
    return Refusal(431, "headers_too_large", f"the headers have more than {HEAD} bytes")
