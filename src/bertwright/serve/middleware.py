"""The door of a server: keys, the bound of requests at work, one log line and figure a request.

A pure ASGI layer around the application, so that it sees every reply. What asks a model is answered
here, without the application: its ways take longer than a short text does.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Mapping
from itertools import count
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bertwright.serve.errors import Refusal, busy, unavailable
from bertwright.serve.requests import Route, dump
from bertwright.serve.service import Service

OPEN = {"/", "/livez", "/readyz", "/metrics", "/docs", "/openapi.json", "/favicon.ico"}
"""What needs no key."""
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
NAME = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
"""An `X-Request-Id` that is taken over."""
BUFFER = 65536
"""Bytes of a reply that may lie in a connection's buffer while its request counts as answered."""

log = logging.getLogger("bertwright.serve")


class Door:
    """Lets requests in, or not, and tells of them."""

    def __init__(
        self, app: ASGIApp, service: Service, answered: Mapping[str, Route], routes: frozenset[str]
    ) -> None:
        """Before `app`, which answers what the routes of `answered` do not.

        Args:
            app: the application.
            service: the models.
            answered: routes of POST by path.
            routes: paths that have figures of their own.
        """
        self.app, self.service, self.answered, self.routes = app, service, answered, routes
        self._names = map((secrets.token_hex(4) + "{:08x}").format, count())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, seconds = time.perf_counter(), 0, None
        name = self._name(scope["headers"])
        facts: dict[str, Any] = {}
        path = scope["path"]

        async def sending(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status, seconds = message["status"], time.perf_counter() - start
                more = [*HEADERS, (b"x-request-id", name.encode())]
                message = {**message, "headers": [*message.get("headers", []), *more]}
            await send(message)

        counted = scope["method"] == "POST"
        service = self.service
        try:
            refusal = self._refusal(path, scope["headers"], counted)
            service.active += counted
            try:
                if refusal is not None:
                    await send_refusal(refusal, path, sending)
                elif counted and path in self.answered:
                    facts = await self._answer(self.answered[path], scope, receive, sending)
                else:
                    await self.app(scope, receive, sending)
            finally:
                service.active -= counted
        except asyncio.CancelledError:  # the time to drain is over
            if status or not service.draining:
                raise
            await send_refusal(unavailable("the server ends", "draining"), path, sending)
        except Exception as error:
            log.error("unexpected", extra={"facts": {"error": type(error).__name__, "id": name}})
            if status:
                raise
            await send_refusal(Refusal(500, "unexpected", "unexpected failure"), path, sending)
        finally:
            taken = time.perf_counter() - start if seconds is None else seconds
            self._tell(path, status, taken, name, facts)

    async def _answer(
        self, route: Route, scope: Scope, receive: Receive, send: Send
    ) -> dict[str, Any]:
        try:
            async with self.service.answer(route, scope, receive) as (body, headers, facts):
                headers = {"content-type": "application/json", **headers}
                await send_reply(200, body, headers, send)
                return facts
        except Refusal as refusal:
            await send_refusal(refusal, route.path, send)
            return {}

    @property
    def is_full(self) -> bool:
        """Whether as many requests are at work as may be."""
        return self.service.active >= self.service.config.queue_requests

    def turn_away(
        self, method: str, path: str, headers: list[tuple[bytes, bytes]]
    ) -> tuple[Refusal, str, str] | None:
        """Why a request gets no answer, its path and its name, for who says so in place of the
        door; None where the door has to see it."""
        refusal = self._refusal(path, headers, counted=True) if method == "POST" else None
        if refusal is None:
            return None
        name = self._name(headers)
        self._tell(path, refusal.status, 0.0, name, {})
        return refusal, path, name

    def _refusal(
        self, path: str, headers: list[tuple[bytes, bytes]], counted: bool
    ) -> Refusal | None:
        service = self.service
        admin = path.startswith("/admin/")
        keys = service.admin_keys if admin else service.keys
        if keys is not None and path not in OPEN and not path.startswith("/playground/"):
            given = [value for name, value in headers if name == b"authorization"]
            if len(given) != 1 or not keys.allow(given[0]):
                return Refusal(401, "unauthorized", "a key is needed: Authorization: Bearer KEY")
        if counted and not admin:
            if service.failing:
                return unavailable("the server is failing", "failing")
            if self.is_full:
                return busy("too many requests wait; try again")
        return None

    def _name(self, headers: list[tuple[bytes, bytes]]) -> str:
        """What a request is called in the log: by its caller or a proxy, else by us."""
        given = [value for name, value in headers if name == b"x-request-id"]
        if len(given) == 1 and NAME.fullmatch(given[0]):
            return given[0].decode()
        return next(self._names)

    def _tell(
        self, path: str, status: int, seconds: float, name: str, facts: dict[str, Any]
    ) -> None:
        route = path if path in self.routes else "other"
        self.service.metrics.count(route, status, seconds)
        if self.service.config.log_requests and route not in ("/livez", "/readyz", "/metrics"):
            told = {"route": route, "status": status, "seconds": round(seconds, 5), "id": name}
            log.info("request", extra={"facts": {**told, **facts}})


def refusal_body(refusal: Refusal, path: str) -> bytes:
    """The body of a no: OpenAI's envelope below /v1, else ours, which is a part of it."""
    error: dict[str, Any] = {"code": refusal.code, "message": refusal.message}
    if path.startswith("/v1/"):
        ours = refusal.status >= 500
        kind = "server_error" if ours else "invalid_request_error"
        error = {**error, "type": kind, "param": None}
    return dump({"error": error})


def refusal_headers(refusal: Refusal) -> dict[str, str]:
    """Headers of a no."""
    found = {"content-type": "application/json"}
    if refusal.retry_after is not None:
        found["retry-after"] = str(refusal.retry_after)
    if refusal.status == 401:
        found["www-authenticate"] = "Bearer"
    if refusal.status in (408, 413):
        found["connection"] = "close"
    return found


async def send_refusal(refusal: Refusal, path: str, send: Send) -> None:
    """Say no."""
    await send_reply(refusal.status, refusal_body(refusal, path), refusal_headers(refusal), send)


async def send_reply(status: int, body: bytes, headers: dict[str, str], send: Send) -> None:
    """A whole reply; of a large one the end comes when its reader has taken it."""
    raw, large = raw_headers(headers, body), len(body) > BUFFER
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": large})
    if large:
        await send({"type": "http.response.body", "body": b""})


def raw_headers(headers: Mapping[str, str], body: bytes) -> list[tuple[bytes, bytes]]:
    """The headers of a reply as ASGI has them, with the length of its body."""
    raw = [(key.encode(), value.encode()) for key, value in headers.items()]
    return [*raw, (b"content-length", b"%d" % len(body))]
