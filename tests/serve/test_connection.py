"""Bounds of a connection: headers, trailers, replies that are not read, other protocols."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from bertwright.config.serve import ServeConfig
from bertwright.serve.calls import json_response
from bertwright.serve.http.connection import MAX_AHEAD, MAX_CHUNKS, MAX_FIELDS, MAX_HEAD, bounded
from tests.serve.sockets import HOST, LARGE, app, connect, replies, served

JAVA = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"
JAVA += b"Upgrade: h2c\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[uvicorn.Server]:
    with served(app, ServeConfig(header_seconds=5, reply_seconds=0.8)) as made:
        yield made


def until_left(server: uvicorn.Server, count: int) -> float:
    """Seconds until so many connections are open."""
    start = time.monotonic()
    while len(server.server_state.connections) > count and time.monotonic() < start + 10:
        time.sleep(0.02)
    return time.monotonic() - start


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
def test_who_does_not_read_is_cut(server: uvicorn.Server, close: bytes) -> None:
    with connect(server) as silent:
        silent.sendall(b"GET /large HTTP/1.1\r\n" + HOST + close + b"\r\n")
        silent.recv(100)
        assert until_left(server, 0) < 5


def test_a_large_reply_is_at_work_until_it_is_taken() -> None:
    done = threading.Event()

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await json_response(bytes(LARGE))(scope, receive, send)
        done.set()

    with served(large, ServeConfig()) as server, connect(server) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert not done.wait(0.3)
        assert len(next(replies(slow))[2]) == LARGE
        assert done.wait(10)


def test_an_idle_connection_is_closed() -> None:
    with served(app, ServeConfig(), keep_alive=1) as server, connect(server) as idle:
        found = replies(idle)
        for _ in range(2):
            idle.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            assert next(found)[0] == 200
            time.sleep(0.3)
        assert next(found, None) is None


def test_who_reads_slowly_is_not(server: uvicorn.Server) -> None:
    with connect(server) as slow:
        slow.sendall(b"GET /large HTTP/1.1\r\n" + HOST + b"\r\n")
        start, size = time.monotonic(), 0
        while size < LARGE:
            part = slow.recv(1 << 20)
            assert part, size
            size += len(part)
            if time.monotonic() - start < 2:  # far more than is granted for nothing at all
                time.sleep(0.02)
        assert time.monotonic() - start > 2


@pytest.mark.parametrize("piece", [1 << 20, 10_000], ids=["at once", "in pieces"])
@pytest.mark.parametrize("ended", [True, False])
def test_headers_have_a_bound(server: uvicorn.Server, piece: int, ended: bool) -> None:
    head = b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(40_000))
    head += b"\r\n" if ended else b""
    with connect(server) as large:
        for start in range(0, len(head), piece):
            try:
                large.sendall(head[start : start + piece])
            except OSError:
                break
            time.sleep(0.001)
        try:
            said = large.recv(65536)
        except ConnectionResetError:
            return  # it was cut while it sent: the reason may be lost on its way
    assert said.startswith(b"HTTP/1.1 431 ")
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["code"] == "headers_too_large"


def test_requests_ahead_of_their_replies_have_a_bound(server: uvicorn.Server) -> None:
    get = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
    with connect(server) as few:
        few.sendall(get * MAX_AHEAD)
        statuses = [status for status, _, _ in islice(replies(few), MAX_AHEAD)]
    assert statuses == [200] * MAX_AHEAD
    with connect(server) as many:
        with suppress(OSError):
            many.sendall(get * 10_000)
        status, headers, _ = next(replies(many))
        assert (status, headers["connection"]) == (429, "close")
        assert until_left(server, 0) < 5


def test_large_headers_below_the_bound(server: uvicorn.Server) -> None:
    with connect(server) as found:
        head = b"GET / HTTP/1.1\r\n" + HOST + b"x-a: " + b"a" * (MAX_HEAD - 1000)
        found.sendall(head + b"\r\n\r\n")
        assert next(replies(found))[0] == 200


def test_bodies_and_other_heads_do_not_count(server: uvicorn.Server) -> None:
    body = b"b" * 150_000
    one = b"POST /one HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    two = b"GET /two HTTP/1.1\r\n" + HOST
    with connect(server) as found:
        sender = threading.Thread(target=found.sendall, args=(one + one + two,))
        sender.start()
        said = replies(found)
        assert [next(said)[2], next(said)[2]] == [body, body]
        sender.join()
        found.sendall(b"\r\n")
        assert next(said)[1]["x-path"] == "/two"


CHUNKED = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"


def test_trailers_and_chunk_extensions_have_a_bound(server: uvicorn.Server) -> None:
    many = [b"x-%d: y\r\n" % n for n in range(40_000)]
    for start, more in (
        (b"5\r\nhello\r\n0\r\n", many),
        (b"5;", [b"a=b;"] * 40_000),
        (b"", [b"1;" + b"e" * 200 + b"\r\na\r\n"] * 2000),
    ):
        with connect(server) as large:
            large.sendall(CHUNKED + start)
            try:
                for n in range(0, len(more), 500):
                    large.sendall(b"".join(more[n : n + 500]))
                    time.sleep(0.001)
                received = large.recv(65536)
            except OSError:
                continue  # it was cut while it sent: the reason may be lost on its way
            assert received.startswith(b"HTTP/1.1 431 ")


def refusal(server: uvicorn.Server, sent: bytes) -> tuple[int, str]:
    """The status and the code of the error with which a server refuses what is sent."""
    with connect(server) as found:
        with suppress(OSError):  # it may close the connection while this sends
            found.sendall(sent)
        status, headers, body = next(replies(found))
    assert headers["connection"] == "close"
    return status, json.loads(body)["error"]["code"]


def test_small_chunks_with_trailers_are_a_body(server: uvicorn.Server) -> None:
    count = MAX_CHUNKS - 1  # the last one is empty
    with connect(server) as found:
        said = replies(found)
        for _ in range(2):
            found.sendall(CHUNKED + b"1\r\na\r\n" * count + b"0\r\nx: y\r\n\r\n")
            assert next(said)[2] == b"a" * count


def test_large_chunks_with_padded_sizes_are_a_body(server: uvicorn.Server) -> None:
    chunk = b"%012x\r\n" % 50_000 + b"a" * 50_000 + b"\r\n"
    with connect(server) as found:
        sender = threading.Thread(target=found.sendall, args=(CHUNKED + chunk * 30 + b"0\r\n\r\n",))
        sender.start()
        assert next(replies(found))[2] == b"a" * 1_500_000
        sender.join()


def test_chunks_have_a_number(server: uvicorn.Server) -> None:
    body = CHUNKED + b"1\r\na\r\n" * (MAX_CHUNKS + 1)
    assert refusal(server, body) == (413, "too_many_chunks")


@pytest.mark.parametrize("chunks", [0, 10_000])
@pytest.mark.parametrize(
    "more",
    [b"5;" + b"e" * 100_000 + b"\r\nhello\r\n", b"0\r\na: " + b"b" * 100_000, b"0" * 100_000],
    ids=["extension", "trailer", "size"],
)
def test_chunks_give_no_room_for_more(server: uvicorn.Server, chunks: int, more: bytes) -> None:
    sent = CHUNKED + b"1\r\na\r\n" * chunks + more
    assert refusal(server, sent) == (431, "headers_too_large")


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n" + HOST, CHUNKED + b"1\r\na\r\n0\r\n"])
def test_headers_and_trailers_have_a_number(server: uvicorn.Server, start: bytes) -> None:
    fields = b"".join(b"a%d:\r\n" % n for n in range(MAX_FIELDS + 1))
    assert refusal(server, start + fields + b"\r\n") == (431, "headers_too_large")


def test_a_trailer_is_no_header() -> None:
    seen: list[list[bytes]] = []

    async def keep(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
        seen.append([name for name, _ in scope["headers"]])

    sent = CHUNKED + b"1\r\na\r\n0\r\nAuthorization: Bearer key\r\n\r\n"
    with served(keep, ServeConfig()) as server, connect(server) as found:
        found.sendall(sent + sent)
        assert [status for status, _, _ in islice(replies(found), 2)] == [200, 200]
    assert seen == [[b"host", b"transfer-encoding"]] * 2


CODING = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: "


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        (b"GET / HTTP/1.1\r\n", 400, "bad_http"),
        (b"GET / HTTP/1.1\r\n" + HOST + HOST, 400, "bad_http"),
        (b"GET / HTTP/1.0\r\n" + HOST + HOST, 400, "bad_http"),
        (b"GET / HTTP/1.1\r\nHost: a b\r\n", 400, "bad_http"),
        (b"GET / HTTP/1.1\r\nHost: a/b\r\n", 400, "bad_http"),
        (CODING + b"gzip, chunked\r\n", 501, "transfer_encoding"),
        (CODING + b"gzip\r\nTransfer-Encoding: chunked\r\n", 501, "transfer_encoding"),
        (CODING + b"gzip\r\n", 400, "bad_http"),
        (CODING + b"chunked, gzip\r\n", 400, "bad_http"),
        (CODING + b"chunked\r\nContent-Length: 3\r\n", 400, "bad_http"),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", 400, "bad_http"),
    ],
)
def test_heads_that_http_does_not_allow(
    server: uvicorn.Server, head: bytes, status: int, code: str
) -> None:
    assert refusal(server, head + b"\r\n0\r\n\r\n") == (status, code)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.0\r\n",
        b"GET / HTTP/1.1\r\nHost:\r\n",
        b"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n",
        b"GET / HTTP/1.1\r\nHost: a-b.example:80\r\n",
    ],
)
def test_heads_that_http_allows(server: uvicorn.Server, head: bytes) -> None:
    with connect(server) as found:
        found.sendall(head + b"\r\n")
        assert next(replies(found))[0] == 200


class Transport(asyncio.Transport):
    """One that a test drives: it keeps what is written, and whether it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.reads, self.closed = b"", True, False

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0


def test_others_are_served_while_many_chunks_are_parsed() -> None:
    async def test() -> None:
        config = uvicorn.Config(app, ws="none", log_config=None)
        config.load()
        connection = bounded(ServeConfig())(config, ServerState(), {})
        transport = Transport()
        connection.connection_made(transport)
        connection.data_received(CHUNKED + b"1\r\na\r\n" * 10_000 + b"0\r\n\r\n")
        turns = 0
        while not transport.written.endswith(b"a" * 10_000):
            assert connection.unparsed == b"" or not transport.reads
            turns += 1
            assert turns < 1000
            await asyncio.sleep(0)  # another task's turn
        assert turns > 10
        assert transport.reads
        connection.connection_lost(None)

    asyncio.run(test())


def test_a_connection_that_was_reset_is_freed_at_once() -> None:
    async def test() -> None:
        config = uvicorn.Config(app, ws="none", log_config=None)
        config.load()
        connection = bounded(ServeConfig())(config, ServerState(), {})
        transport = Transport()
        connection.connection_made(transport)
        connection.data_received(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        while not transport.written:
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # the task of the request ends
        connection.connection_lost(ConnectionResetError())
        freed = weakref.ref(connection)
        del connection
        gc.collect()
        assert freed() is None

    asyncio.run(test())


@pytest.mark.parametrize(
    "said",
    [
        b"nonsense\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\n\r\n",
        b"POST /a HTTP/1.1\r\n" + HOST + JAVA + b"Content-Length: 5\r\n\r\nhello",
    ],
)
def test_what_is_not_a_request(server: uvicorn.Server, said: bytes) -> None:
    with connect(server) as found:
        found.sendall(said)
        status, headers, body = next(replies(found))
    assert (status, headers["connection"]) == (400, "close")
    assert json.loads(body)["error"]["code"] == "bad_http"
