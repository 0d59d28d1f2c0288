"""A server on a port of its own, and connections to it whose bytes a test writes itself."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from bertwright.config.serve import ServeConfig
from bertwright.serve.http.connection import bounded
from bertwright.serve.http.middleware import Middleware

LARGE = 30_000_000
"""Bytes of a reply; more than the system's buffers hold."""
HOST = b"Host: x\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Gives the body back, or a large reply at /large."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    said = bytes(LARGE) if scope["path"] == "/large" else body
    headers = [(b"content-length", b"%d" % len(said)), (b"x-path", scope["raw_path"])]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": said})


@contextmanager
def served(
    app: ASGIApp,
    config: ServeConfig,
    middleware: Middleware | None = None,
    keep_alive: int = 5,
    lifespan: Literal["on", "off"] = "off",
) -> Iterator[uvicorn.Server]:
    """A server in a thread of its own."""
    settings = uvicorn.Config(
        app,
        port=0,
        lifespan=lifespan,
        ws="none",
        log_config=None,
        timeout_keep_alive=keep_alive,
        http=bounded(config, middleware),
    )
    made = uvicorn.Server(settings)
    thread = threading.Thread(target=made.run)
    thread.start()
    while not made.started:
        time.sleep(0.01)
    try:
        yield made
    finally:
        made.should_exit = True
        thread.join(20)


def connect(server: uvicorn.Server) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    found.settimeout(10)
    found.connect(server.servers[0].sockets[0].getsockname())
    return found


def replies(connection: socket.socket) -> Iterator[tuple[int, dict[str, str], bytes]]:
    """Status, headers and body of each reply."""
    with connection.makefile("rb") as file:
        while status := file.readline():
            headers = {}
            while line := file.readline().decode().strip().lower():
                name, value = line.split(": ", 1)
                headers[name] = value
            yield int(status.split()[1]), headers, file.read(int(headers["content-length"]))
