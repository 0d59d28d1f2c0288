"""The ASGI layer around the application: keys, the limit of active requests, one log line and one
metric for each request.

It sees every request before its body is read, which a dependency of FastAPI's would not: a client
without a key, or beyond the limit, is refused before it can send a body.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Container
from dataclasses import dataclass, field
from itertools import count

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bertwright.serve.errors import HttpError, busy, unavailable
from bertwright.serve.service import Service

Headers = list[tuple[bytes, bytes]]
Early = tuple[HttpError, str]
"""The error with which a request is refused, and the id of the request."""
OPEN = {"/", "/livez", "/readyz", "/metrics", "/docs", "/openapi.json", "/favicon.ico"}
"""Paths that need no key."""
OPEN_FOLDERS = ("/playground/", "/docs/")
"""What the paths begin with of files that need no key."""
NAMED = OPEN | {"/v1/models"}
"""Paths that the metrics count by path, in addition to the routes of models."""
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]

log = logging.getLogger("bertwright.serve")


@dataclass(slots=True)
class RequestRecord:
    """What is kept of a request until its reply has been sent."""

    facts: dict[str, object] = field(default_factory=dict)
    """What is logged about it."""
    reply_bytes: int = 0
    """The approximate bytes of its reply."""


class Middleware:
    """Admits or refuses requests, and logs them."""

    def __init__(self, app: ASGIApp, service: Service, paths: Container[str] = ()) -> None:
        """Wrap `app`. Requests to one of `paths` are counted by path, others as `other`."""
        self.app, self.service, self.paths = app, service, paths
        self._ids = map((secrets.token_hex(4) + "{:08x}").format, count())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request by the protocol of ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, seconds, complete = time.perf_counter(), 0, None, False
        headers, path, service = scope["headers"], scope["path"], self.service
        request_id = next(self._ids)

        async def send_more(message: Message) -> None:
            nonlocal status, seconds, complete
            if message["type"] == "http.response.start":
                status, seconds = message["status"], time.perf_counter() - start
                more = [*HEADERS, (b"x-request-id", request_id.encode())]
                message = {**message, "headers": [*message.get("headers", []), *more]}
            else:
                complete = not message.get("more_body", False)
            await send(message)

        record = RequestRecord()
        scope.setdefault("state", {})["record"] = record
        counted = scope["method"] == "POST"
        error = self._refusal(path, headers, counted)
        service.active += counted
        try:
            if error is None:
                await self.app(scope, receive, send_more)
            else:
                await send_error(error, send_more)
        except asyncio.CancelledError:  # `--drain-seconds` are over
            if not service.draining:
                raise
            if not status:  # a stream that has begun sends its own error
                await send_error(unavailable("the server ends", "draining"), send_more)
        except Exception as failure:
            name = type(failure).__name__
            log.error("unexpected", extra={"facts": {"error": name, "id": request_id}})
            if not complete:
                raise
        finally:
            service.active -= counted
            service.reply_bytes -= record.reply_bytes
            taken = time.perf_counter() - start if seconds is None else seconds
            self._log(path, status, taken, request_id, record.facts)

    @property
    def is_full(self) -> bool:
        """Whether as many requests are active as the server allows."""
        return self.service.active >= self.service.config.queue_requests

    def refuse_early(self, method: str, path: str, headers: Headers) -> Early | None:
        """Return why a connection should refuse a request by itself, and the id of the request.

        None means that the request has to come here.
        """
        if method != "POST" or (error := self._refusal(path, headers, counted=True)) is None:
            return None
        request_id = next(self._ids)
        self._log(path, error.status, 0.0, request_id, {})
        return error, request_id

    def _refusal(self, path: str, headers: Headers, counted: bool) -> HttpError | None:
        """Return why a request is refused before its body is read, or None."""
        service = self.service
        keys = service.keys
        if keys is not None and path not in OPEN and not path.startswith(OPEN_FOLDERS):
            given = [value for name, value in headers if name == b"authorization"]
            if len(given) != 1 or not keys.allow(given[0]):
                return HttpError(401, "unauthorized", "a key is needed: Authorization: Bearer KEY")
        if counted:
            if service.failing:
                return unavailable("the server is failing", "failing")
            if self.is_full:
                return busy("too many requests wait; try again")
        return None

    def _log(
        self, path: str, status: int, seconds: float, request_id: str, facts: dict[str, object]
    ) -> None:
        route = path if path in self.paths or path in NAMED else "other"
        self.service.metrics.count(route, status, seconds)
        if self.service.config.log_requests and route not in ("/livez", "/readyz", "/metrics"):
            line = {"route": route, "status": status, "seconds": round(seconds, 5)}
            log.info("request", extra={"facts": {**line, "id": request_id, **facts}})


def record_of(scope: Scope) -> RequestRecord:
    """Return the record of a request."""
    record: RequestRecord = scope["state"]["record"]
    return record


async def send_error(error: HttpError, send: Send) -> None:
    """Send an error as the reply."""
    headers = [(name.encode(), value.encode()) for name, value in error.headers.items()]
    headers.append((b"content-length", b"%d" % len(error.body)))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": error.body})
