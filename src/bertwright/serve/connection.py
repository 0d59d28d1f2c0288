"""A client's connection, with bounds that uvicorn's lacks (docs/serving.md, "Settings")."""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bertwright.config.serve import ServeConfig
from bertwright.serve.errors import HttpError, busy, invalid_request
from bertwright.serve.middleware import HEADERS, Middleware

MAX_HEAD = 65536
"""Bytes of a request that are not its body."""
CHUNK = 16
"""Such bytes that each chunk of a body may have beside: its size and line ends."""
MAX_AHEAD = 64
"""Requests that wait for the reply to one before them; uvicorn keeps any number."""


class ServerConnection(HttpToolsProtocol):
    """uvicorn's protocol, with bounds."""

    middleware: Middleware | None = None
    header_seconds: float
    reply_seconds: float
    overhead = 0
    """Bytes of the request that are not its body, but for those that came with its first."""
    refused = False
    """Whether the request whose body comes has its reply already."""
    slow_head: asyncio.TimerHandle | None = None
    slow_reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio, as of all here."""
        super().connection_made(transport)
        self.await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        for timer in (self.slow_head, self.slow_reader):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of heads and bodies."""
        self._unset_keepalive_if_required()
        self.overhead += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.refuse(invalid_request("send no Upgrade header: this is HTTP/1.1", "bad_http"))
            return
        except httptools.HttpParserError as error:
            if self.overhead <= MAX_HEAD:
                why = error.__context__
                other = invalid_request("this is not HTTP/1.1", "bad_http")
                self.refuse(why if isinstance(why, HttpError) else other)
                return
        if self.overhead > MAX_HEAD:
            reason = f"headers or trailers have over {MAX_HEAD} bytes"
            self.refuse(HttpError(431, "headers_too_large", reason))
        elif not (self.slow_head or self.timeout_keep_alive_task or self.is_active):
            self.await_head()

    def await_head(self) -> None:
        """Close the connection if no head comes in time."""
        self.slow_head = self.loop.call_later(self.header_seconds, self.close_if_idle)

    def on_message_begin(self) -> None:
        """A head begins, somewhere in what was received."""
        self.overhead = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head ends."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MAX_HEAD:
            self.overhead = size  # as if it had come in parts
            raise ValueError
        if len(self.pipeline) >= MAX_AHEAD:
            raise busy(f"more than {MAX_AHEAD} requests of one connection wait")
        if self.parser.should_upgrade():
            return
        if self.slow_head is not None:
            self.slow_head.cancel()
            self.slow_head = None
        self.refused = self.refuse_early()
        if not self.refused:
            super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """A chunk of a body begins."""
        self.overhead -= CHUNK

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        self.overhead -= len(body)
        if not self.refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """A body ends."""
        if not (self.refused or self.parser.should_upgrade()):
            super().on_message_complete()

    def refuse_early(self) -> bool:
        """Reply with an error where the middleware would, if the server is full."""
        if self.middleware is None or not self.middleware.is_full:
            return False
        # replies come in the order of a client's requests, and wait for one that does not read
        if self.is_active or self.flow.write_paused:
            return False
        method = self.parser.get_method().decode()
        path = httptools.parse_url(self.url).path.decode()
        found = self.middleware.refuse_early(method, path, self.headers)
        if found is None:
            return False
        self.refuse(*found, close=not self.parser.should_keep_alive())
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
    def is_active(self) -> bool:
        """Whether a request has no whole reply yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def close_if_idle(self) -> None:
        """The time for a head is over."""
        self.slow_head = None
        if not self.is_active:
            self.transport.close()

    def refuse(self, error: HttpError, request_id: str = "", close: bool = True) -> None:
        """Reply with an error to a request, or to what is none, and close."""
        if not (self.is_active and self.cycle.response_started):
            body = error.body
            own = [(name.encode(), value.encode()) for name, value in error.headers.items()]
            own += [(b"content-length", b"%d" % len(body))]
            own += [(b"connection", b"close")] * close
            own += [(b"x-request-id", request_id.encode())] * bool(request_id)
            headers = [*self.server_state.default_headers, *HEADERS, *own]
            lines = [b"%s: %s\r\n" % pair for pair in headers]
            self.transport.write(b"".join([STATUS_LINE[error.status], *lines, b"\r\n", body]))
        if close:
            self.transport.close()


def bounded(config: ServeConfig, around: Middleware | None = None) -> type[ServerConnection]:
    """The connections of a server with this middleware."""
    bounds = {"header_seconds": config.header_seconds, "reply_seconds": config.reply_seconds}
    return type("Bounded", (ServerConnection,), {"middleware": around, **bounds})
