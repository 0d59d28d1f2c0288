"""A client's connection, with limits that uvicorn lacks (docs/howto/serving.md, "Settings").

The limits hold while a request is parsed, before its key is checked. They are on the framing of a
request, which is all that is not its body: the head, the sizes, extensions and line ends of chunks,
and the trailers. Parsing many small chunks or headers takes time on the event loop. Therefore what
a client sends is parsed in slices, and after each slice the loop serves others.

This derives from classes that uvicorn does not document, since no server for ASGI that was compared
holds these limits by its public settings (benchmarks/README.md, "Web servers").
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bertwright.config.serve import ServeConfig
from bertwright.serve.errors import HttpError, busy, invalid_request
from bertwright.serve.http.middleware import HEADERS, Middleware

MAX_HEAD = 65536
"""The most bytes of the head, chunk extensions and trailers of a request. The size and the two line
ends that each chunk needs do not count."""
MAX_FIELDS = 128
"""The most headers and trailers of a request."""
MAX_CHUNKS = 16384
"""The most chunks of the body of a request."""
SLICE = 4096
"""Bytes that are parsed in a turn of the event loop; of a body of known length, all of them."""
MAX_AHEAD = 64
"""The most requests of a connection that wait for the reply to one before them; uvicorn has no
limit."""
HOST = re.compile(rb"([\w.~!$&'()*+,;=%-]*|\[[\w.:]+\])(:\d*)?", re.ASCII)
"""The value of a header Host (RFC 9110, section 7.2)."""


class Flow(FlowControl):
    """uvicorn's flow control, which also does not read while received bytes wait to be parsed."""

    is_held = False

    def resume_reading(self) -> None:
        """Resume reading, if nothing waits to be parsed."""
        if not self.is_held:
            super().resume_reading()


class ServerConnection(HttpToolsProtocol):
    """uvicorn's protocol with limits. Methods that begin with `on_` are called by the parser."""

    flow: Flow
    middleware: Middleware | None = None
    header_seconds: float
    reply_seconds: float
    overhead = 0
    """Bytes of this request that count towards `MAX_HEAD`."""
    fields = 0
    """Headers and trailers of this request so far."""
    chunks = 0
    """Chunks of its body so far."""
    chunk = 0
    """Bytes of the present chunk so far."""
    has_head = False
    """Whether its headers are complete, so that those that follow are trailers."""
    body_left = 0
    """Bytes of its body that have not arrived, where the length is known."""
    unparsed = b""
    """Received bytes that are parsed in the next turn of the event loop."""
    next_turn: asyncio.Handle | None = None
    refused = False
    """Whether the request whose body arrives was refused already."""
    slow_head: asyncio.TimerHandle | None = None
    slow_reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the head of a request."""
        super().connection_made(transport)
        self.flow = Flow(transport)
        self.await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of the connection."""
        for timer in (self.slow_head, self.slow_reader, self.next_turn):
            if timer is not None:
                timer.cancel()
        # uvicorn leaves its timer, and with it all of the connection, if the client has reset it
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, unless others wait to be parsed."""
        self.unparsed += data
        if self.next_turn is None:
            self.parse()

    def parse(self) -> None:
        """Parse a slice of what was received. The rest waits for the next turn of the event loop,
        and no more is read until then."""
        self._unset_keepalive_if_required()
        self.next_turn = None
        end = max(SLICE, self.body_left)
        data, self.unparsed = self.unparsed[:end], self.unparsed[end:]
        self.parse_slice(data)
        if self.transport.is_closing():
            return
        self.flow.is_held = bool(self.unparsed)
        if self.unparsed:
            self.flow.pause_reading()
            self.next_turn = self.loop.call_soon(self.parse)
            return
        if not (self.pipeline or (self.is_active and len(self.cycle.body) > HIGH_WATER_LIMIT)):
            self.flow.resume_reading()
        if not (self.slow_head or self.timeout_keep_alive_task or self.is_active):
            self.await_head()

    def parse_slice(self, data: bytes) -> None:
        """Parse some bytes, or refuse the request that they belong to."""
        self.overhead += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            why = error.__context__
            other = invalid_request("this is not HTTP/1.1", "bad_http")
            self.refuse(why if isinstance(why, HttpError) else other)
            return
        # if the request began in this slice, its body was subtracted but nothing was added
        self.overhead = max(0, self.overhead)
        if self.overhead > MAX_HEAD:
            reason = f"headers, chunk extensions or trailers have over {MAX_HEAD} bytes"
            self.refuse(HttpError(431, "headers_too_large", reason))

    def await_head(self) -> None:
        """Close the connection if no head arrives in time."""
        self.slow_head = self.loop.call_later(self.header_seconds, self.close_if_idle)

    def on_message_begin(self) -> None:
        """Reset the counts, as a request begins."""
        self.overhead = self.fields = self.chunks = self.body_left = 0
        self.has_head = False
        super().on_message_begin()
        # whether the client has left, without waiting for it as `receive` does
        self.scope["state"]["is_gone"] = self.transport.is_closing

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header or a trailer; trailers are not passed on."""
        self.fields += 1
        if self.fields > MAX_FIELDS:
            reason = f"a request has over {MAX_FIELDS} headers and trailers"
            raise HttpError(431, "headers_too_large", reason)
        if not self.has_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the head of a request, which is complete."""
        self.has_head = True
        if len(self.pipeline) >= MAX_AHEAD:
            raise busy(f"more than {MAX_AHEAD} requests of one connection wait")
        if self.parser.should_upgrade():
            raise invalid_request("send no Upgrade header: this is HTTP/1.1", "bad_http")
        self.check_head()
        if self.slow_head is not None:
            self.slow_head.cancel()
            self.slow_head = None
        self.refused = self.refuse_early()
        if not self.refused:
            super().on_headers_complete()

    def check_head(self) -> None:
        """Raise `HttpError` for a head that the parser accepts but HTTP/1.1 does not allow, as a
        proxy may read another request from it (RFC 9112, sections 3.2 and 6.1)."""
        hosts, codings = list[bytes](), list[bytes]()
        for name, value in self.headers:
            if name == b"host":
                hosts.append(value)
            elif name == b"content-length":
                self.body_left = int(value)
            elif name == b"transfer-encoding":
                codings += [each.strip().lower() for each in value.split(b",")]
        version = self.parser.get_http_version()
        if len(hosts) != 1 and (hosts or version != "1.0"):
            count = f"{len(hosts)} headers" if hosts else "no header"
            raise invalid_request(f"the request has {count} Host; expected one", "bad_http")
        if hosts and not HOST.fullmatch(hosts[0]):
            raise invalid_request("the header Host is no HOST or HOST:PORT", "bad_http")
        if codings and (codings[-1] != b"chunked" or version == "1.0"):
            reason = "the last Transfer-Encoding of a request must be chunked, in HTTP/1.1"
            raise invalid_request(reason, "bad_http")
        if len(codings) > 1:
            reason = "of transfer codings only chunked is supported; send the body as it is"
            raise HttpError(501, "transfer_encoding", reason)

    def on_chunk_header(self) -> None:
        """Count a chunk, which begins."""
        self.chunks += 1
        self.chunk = 0
        if self.chunks > MAX_CHUNKS:
            reason = f"the body comes in over {MAX_CHUNKS} chunks; send larger ones"
            raise HttpError(413, "too_many_chunks", reason)

    def on_chunk_complete(self) -> None:
        """Leave out of `overhead` what a chunk needs: its size in hexadecimal digits and two line
        ends."""
        self.overhead -= max(1, -(-self.chunk.bit_length() // 4)) + 4

    def on_body(self, body: bytes) -> None:
        """Pass on a part of a body."""
        self.overhead -= len(body)
        self.chunk += len(body)
        self.body_left = max(0, self.body_left - len(body))
        if not self.refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Pass on that the body of a request is complete."""
        if not self.refused:
            super().on_message_complete()

    def refuse_early(self) -> bool:
        """Refuse a request as the middleware would, if the server is full; return whether it is.

        A task for each refusal takes further turns of the event loop, and each of them waits for
        the threads that compute: at five times the requests that can be answered, a refusal took
        0.7 to 8 milliseconds instead of 0.4 to 0.6 (benchmarks/README.md).
        """
        if self.middleware is None or not self.middleware.is_full:
            return False
        # a reply waits for those to the requests before it, and for a client that does not read
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
        """Watch whether the client reads the reply, which was handed to the transport."""
        super().on_response_complete()
        self.watch_reader()

    def pause_writing(self) -> None:
        """Watch whether the client reads, as the transport's buffer is full."""
        super().pause_writing()
        self.watch_reader()

    def watch_reader(self, before: int | None = None) -> None:
        """Close the connection if the client has read nothing since `before` bytes waited."""
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
        """Whether a request has no complete reply yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def close_if_idle(self) -> None:
        """Close the connection, as no head arrived in time."""
        self.slow_head = None
        if not self.is_active:
            self.transport.close()

    def refuse(self, error: HttpError, request_id: str = "", close: bool = True) -> None:
        """Reply with an error to a request, or to bytes that are not one, and close."""
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
    """Return the class of connections of a server with these limits and this middleware."""
    bounds = {"header_seconds": config.header_seconds, "reply_seconds": config.reply_seconds}
    return type("Bounded", (ServerConnection,), {"middleware": around, **bounds})
