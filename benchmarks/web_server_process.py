"""The application of `bertwright serve` under one of several web servers, for `web_servers.py`.

    python benchmarks/web_server_process.py SERVER MODEL [--drain 30]

prints its port. Every server has the same limits, as far as its public settings have them. All but
ours run the application in `PublicBounds`, which holds what an ASGI application can.
`pip install hypercorn granian` for those two.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import uvicorn
import uvloop
from fastapi import FastAPI
from fastapi.requests import Request
from fastapi.responses import Response, StreamingResponse

from bertwright.config.serve import ServeConfig
from bertwright.serve.app import make_app
from bertwright.serve.calls import json_response
from bertwright.serve.errors import HttpError, unavailable
from bertwright.serve.http.connection import HOST, MAX_FIELDS, MAX_HEAD, bounded
from bertwright.serve.http.middleware import Middleware, send_error
from bertwright.serve.process import Server, log_json

sys.path.append(str(Path(__file__).resolve().parents[1] / "experiments"))
from needs import needs

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
SECONDS = 3
"""Seconds for a head, a body, an idle connection and the next part of a reply."""
LARGE = 30_000_000
"""Bytes of a reply at /large; more than the system's buffers hold."""
BACKLOG = 2048
"""Connections that may wait until they are accepted."""
PART = 65536
"""Bytes of a reply that are sent at once, so that each has a time of its own."""


class PublicBounds:
    """Holds the limits that an ASGI application can: on complete heads, and on the time of a reply.

    The time of a body is bounded by the application itself (`serve/http/bodies.py`).
    """

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a request by the protocol of ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_in_time(message: Message) -> None:
            body = message.get("body", b"")
            for start in range(0, max(1, len(body)), PART):
                more = start + PART < len(body) or message.get("more_body", False)
                part = {**message, "body": body[start : start + PART], "more_body": more}
                async with asyncio.timeout(SECONDS):
                    await send(part if message["type"] == "http.response.body" else message)

        refusal = find_refusal(scope)
        if refusal is None:
            await self.app(scope, receive, send_in_time)
        else:
            refusal.headers["connection"] = "close"
            await send_error(refusal, send)


def find_refusal(scope: Message) -> HttpError | None:
    """Return why a request is refused for its head, as our connection would, or None."""
    headers: list[tuple[bytes, bytes]] = [(name.lower(), value) for name, value in scope["headers"]]
    hosts = [value for name, value in headers if name == b"host"]
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if len(headers) > MAX_FIELDS:
        return HttpError(431, "headers_too_large", f"over {MAX_FIELDS} headers")
    if len(hosts) != 1 and (hosts or scope["http_version"] != "1.0"):
        return HttpError(400, "bad_http", "expected one header Host")
    if hosts and not HOST.fullmatch(hosts[0]):
        return HttpError(400, "bad_http", "the header Host is no HOST or HOST:PORT")
    if codings not in ([], [b"chunked"]) or (codings and scope["http_version"] == "1.0"):
        return HttpError(501, "transfer_encoding", "of transfer codings only chunked is supported")
    if any(name == b"upgrade" for name, _ in headers):
        return HttpError(400, "bad_http", "send no Upgrade header: this is HTTP/1.1")
    return None


def make_application(model: str, drain_seconds: float) -> tuple[Middleware, ServeConfig]:
    """Return our application with two more routes, /large and /stream, and its configuration."""
    config = ServeConfig(
        model=(f"m={model}",),
        header_seconds=SECONDS,
        body_seconds=SECONDS,
        keep_alive=SECONDS,
        reply_seconds=SECONDS,
        drain_seconds=drain_seconds,
        queue_requests=4096,  # a thousand slow bodies are not too many
        log_requests=False,
        port=0,
    )
    app = make_app(config)
    content = b'"' + b"a" * LARGE + b'"'

    async def large(request: Request) -> Response:
        return json_response(content)

    async def stream(request: Request) -> Response:
        seconds = float(request.query_params["seconds"])
        return StreamingResponse(events(seconds, app), media_type="text/event-stream")

    routes = cast(FastAPI, app.app)
    routes.add_route("/large", large, methods=["POST"])
    routes.add_route("/stream", stream, methods=["POST"])
    return app, config


async def events(seconds: float, app: Middleware) -> AsyncIterator[bytes]:
    """Yield ten events a second; the last one says whether all were sent, as /generate's does."""
    try:
        for number in range(round(seconds * 10)):
            yield b"data: %d\n\n" % number
            await asyncio.sleep(0.1)
        yield b"data: [DONE]\n\n"
    except asyncio.CancelledError:
        if not app.service.draining:
            raise
        yield b"data: %b\n\n" % unavailable("the server ends", "draining").body


def serve_by_uvicorn(protocol: str) -> Callable[[Middleware, ServeConfig], int]:
    """Return a function that serves by uvicorn: with our connection, `h11` or `httptools`."""

    def serve(app: Middleware, config: ServeConfig) -> int:
        connection: Any = bounded(config, app) if protocol == "ours" else protocol
        settings = uvicorn.Config(
            app if protocol == "ours" else PublicBounds(app),
            port=0,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=config.keep_alive,
            timeout_graceful_shutdown=max(1, round(config.drain_seconds)),
            h11_max_incomplete_event_size=MAX_HEAD,
            http=connection,
        )
        server = Server(settings, app.service, announce)
        server.run()
        return 0 if server.started else 1

    return serve


def serve_by_hypercorn(app: Middleware, config: ServeConfig) -> int:
    """Serve by hypercorn. Its `read_timeout` is unset: it would end each reply that takes longer,
    and holds no client that sends a byte now and then."""
    needs("hypercorn", "hypercorn")
    import hypercorn
    from hypercorn.asyncio import serve

    listener = listen()
    settings = hypercorn.Config()
    settings.bind = [f"fd://{listener.fileno()}"]
    settings.h11_max_incomplete_size = MAX_HEAD
    settings.backlog = BACKLOG
    settings.keep_alive_timeout = config.keep_alive
    settings.keep_alive_max_requests = sys.maxsize
    settings.graceful_timeout = config.drain_seconds
    settings.errorlog = settings.accesslog = None
    settings.include_server_header = False

    async def run() -> None:
        drain = drain_on_signal(app)
        announce(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        await serve(PublicBounds(app), settings, shutdown_trigger=drain.wait)

    uvloop.run(run())
    return 0


def serve_by_granian(app: Middleware, config: ServeConfig) -> int:
    """Serve by granian in this process, as its own ones would not tell our service of signals."""
    needs("granian", "granian")
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.server.embed import Server as Granian

    with listen() as listener:
        port = listener.getsockname()[1]
    server = Granian(
        PublicBounds(app),
        port=port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        websockets=False,
        log_enabled=False,
        backlog=BACKLOG,
        http1_settings=HTTP1Settings(
            header_read_timeout=round(config.header_seconds * 1000), max_buffer_size=MAX_HEAD
        ),
    )

    async def run() -> None:
        drain = drain_on_signal(app)
        serving = asyncio.create_task(server.serve())
        announce(f"http://127.0.0.1:{port}/")
        await drain.wait()
        server.stop()
        await asyncio.wait([serving], timeout=config.drain_seconds)

    uvloop.run(run())
    return 0


def listen() -> socket.socket:
    """Return a socket that listens on a free port of this host."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(BACKLOG)
    listener.set_inheritable(True)
    return listener


def drain_on_signal(app: Middleware) -> asyncio.Event:
    """Return an event that SIGTERM sets; the service then knows that the server ends."""
    drain = asyncio.Event()

    def begin() -> None:
        app.service.draining = True
        drain.set()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, begin)
    return drain


def announce(line: str) -> None:
    """Print the port of a line that names the address."""
    found = re.search(r":(\d+)/", line)
    assert found is not None
    print(found[1], flush=True)


@dataclass(frozen=True)
class WebServer:
    """A web server with settings."""

    title: str
    package: str
    serve: Callable[[Middleware, ServeConfig], int]


SERVERS = {
    "ours": WebServer("uvicorn, our connection", "uvicorn", serve_by_uvicorn("ours")),
    "h11": WebServer("uvicorn, h11", "uvicorn", serve_by_uvicorn("h11")),
    "httptools": WebServer("uvicorn, httptools", "uvicorn", serve_by_uvicorn("httptools")),
    "hypercorn": WebServer("hypercorn", "hypercorn", serve_by_hypercorn),
    "granian": WebServer("granian", "granian", serve_by_granian),
}


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("server", choices=SERVERS)
    parser.add_argument("model", help="folder of a model")
    parser.add_argument("--drain", type=float, default=30.0, help="seconds to end after SIGTERM")
    args = parser.parse_args()
    log_json()
    return SERVERS[args.server].serve(*make_application(args.model, args.drain))


if __name__ == "__main__":
    sys.exit(main())
