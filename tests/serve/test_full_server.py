"""A full server refuses before a task is made, as the middleware would."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from bertwright.config.serve import ServeConfig
from bertwright.serve.http.middleware import Middleware
from bertwright.serve.service import Service
from tests.serve.sockets import HOST, app, connect, replies, served

EMBED = b"POST /embed HTTP/1.1\r\n" + HOST
KEY = b"Authorization: Bearer secret\r\n"
HELLO = b"Content-Length: 5\r\n\r\nhello"


@pytest.fixture
def service(tmp_path: Path) -> Service:
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    return Service(ServeConfig(model=("m",), queue_requests=1, log_requests=False, api_keys=keys))


def behind(middleware: Middleware) -> AbstractContextManager[uvicorn.Server]:
    return served(middleware, middleware.service.config, middleware)


@pytest.fixture
def server(service: Service) -> Iterator[uvicorn.Server]:
    with behind(Middleware(app, service, {"/embed"})) as made:
        yield made


def counted(service: Service, status: int) -> float | None:
    labels = {"route": "/embed", "status": str(status)}
    return service.metrics.registry.get_sample_value("bertwright_requests_total", labels)


@pytest.mark.parametrize(
    "body",
    [
        HELLO,
        b"Content-Length: 0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n0\r\n\r\n",
    ],
    ids=["a body", "none", "in chunks"],
)
def test_no_and_then_yes_over_one_connection(
    server: uvicorn.Server, service: Service, body: bytes
) -> None:
    with connect(server) as found:
        said, names = replies(found), set()
        for _ in range(3):
            service.active = 1
            found.sendall(EMBED + KEY + body)
            status, headers, given = next(said)
            assert (status, json.loads(given)["error"]["code"], headers["retry-after"]) == (
                429,
                "busy",
                "1",
            )
            assert headers["cache-control"] == "no-store"
            names.add(headers["x-request-id"])
            service.active = 0
            found.sendall(EMBED + KEY + body)
            assert next(said)[0] == 200
    assert len(names) == 3
    assert (counted(service, 429), counted(service, 200)) == (3, 3)


def test_the_early_reply_is_the_middlewares(service: Service) -> None:
    middleware = Middleware(app, service)
    service.active = 1
    found = []
    for path in (b"/embed", b"/v1/embeddings"):
        for early in (True, False):
            with behind(middleware) as server, connect(server) as made:
                if not early:
                    server.config.http_protocol_class.middleware = None
                made.sendall(b"POST " + path + b" HTTP/1.1\r\n" + HOST + KEY + HELLO)
                status, headers, body = next(replies(made))
                del headers["x-request-id"], headers["date"]
                found.append((status, headers, body))
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert json.loads(found[2][2])["error"]["type"] == "invalid_request_error"


def test_a_body_in_pieces_is_passed_over(server: uvicorn.Server, service: Service) -> None:
    service.active = 1
    head, body = HELLO[:-5], HELLO[-5:]
    with connect(server) as found:
        said = replies(found)
        found.sendall(EMBED + KEY + head)
        assert next(said)[0] == 429  # at once: before the body
        for letter in body:
            found.sendall(bytes([letter]))
            time.sleep(0.01)
        service.active = 0
        found.sendall(EMBED + KEY + HELLO)
        status, _, given = next(said)
        assert (status, given) == (200, b"hello")


def test_many_in_one_piece(server: uvicorn.Server, service: Service) -> None:
    service.active = 1
    with connect(server) as found:
        found.sendall((EMBED + KEY + HELLO) * 20)
        said = replies(found)
        assert [next(said)[0] for _ in range(20)] == [429] * 20


@pytest.mark.parametrize("head", [EMBED + b"Connection: close\r\n", EMBED.replace(b"1.1", b"1.0")])
def test_who_wants_no_more_is_hung_up_on(
    server: uvicorn.Server, service: Service, head: bytes
) -> None:
    service.active = 1
    with connect(server) as found:
        found.sendall(head + KEY + HELLO)
        assert [status for status, _, _ in replies(found)] == [429]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (EMBED + HELLO, 401),
        (EMBED + b"Authorization: Bearer other\r\n" + HELLO, 401),
        (b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n", 200),
    ],
    ids=["no key", "another key", "no POST"],
)
def test_what_does_not_depend_on_it(
    server: uvicorn.Server, service: Service, request_: bytes, status: int
) -> None:
    service.active = 1
    with connect(server) as found:
        found.sendall(request_)
        assert next(replies(found))[0] == status


def test_replies_keep_their_order(service: Service) -> None:
    """The server is full with a caller's own request: what it sends behind that has to wait."""
    entered, go_on = threading.Event(), threading.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        entered.set()
        while not go_on.is_set():
            await asyncio.sleep(0.01)
        await app(scope, receive, send)

    with behind(Middleware(slow, service)) as server, connect(server) as found:
        found.sendall(EMBED + KEY + HELLO)
        assert entered.wait(10)
        found.sendall(EMBED + KEY + HELLO.replace(b"hello", b"world"))
        with connect(server) as other:
            other.sendall(EMBED + KEY + HELLO)
            assert next(replies(other))[0] == 429
        go_on.set()
        said = replies(found)
        assert [next(said)[2] for _ in range(2)] == [b"hello", b"world"]


def test_who_is_refused_and_sends_no_body_is_hung_up_on(service: Service) -> None:
    service.config = replace(service.config, header_seconds=0.3)
    service.active = 1
    with behind(Middleware(app, service)) as server, connect(server) as found:
        found.sendall(EMBED + KEY + b"Content-Length: 100\r\n\r\nhello")
        time.sleep(0.1)
        found.sendall(b"hello")
        assert [status for status, _, _ in replies(found)] == [429]


@pytest.mark.slow
def test_who_asks_without_end_and_reads_nothing_is_cut(service: Service) -> None:
    service.config = replace(service.config, reply_seconds=1)
    service.active, kept = 1, [0]
    many = (EMBED + KEY + HELLO) * 20_000
    with behind(Middleware(app, service)) as server, connect(server) as found:
        connections = server.server_state.connections
        found.settimeout(0.2)
        end = time.monotonic() + 20
        while time.monotonic() < end and (connections or kept == [0]):
            with suppress(OSError):
                found.send(many)
            kept += [each.transport.get_write_buffer_size() for each in list(connections)]
        assert not connections
    assert 0 < max(kept) < 1 << 20


def test_an_address_that_is_none(server: uvicorn.Server, service: Service) -> None:
    service.active = 1
    with connect(server) as found:
        found.sendall(b"POST http://[ HTTP/1.1\r\n" + HOST + KEY + HELLO)
        status, headers, _ = next(replies(found))
    assert (status, headers["connection"]) == (400, "close")
