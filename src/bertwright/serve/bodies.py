"""Reading the body of a request: within limits, and parsed beside the event loop if it is large.

FastAPI by itself reads a body of any size and parses it with `json` on the event loop, so that one
client could fill the memory or stop all others. A `BoundedRoute` reads and parses the body first,
and gives FastAPI the parsed JSON. This is FastAPI's own way to change how requests are read
("Custom Request and APIRoute class" in its documentation).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from bertwright.config.serve import ServeConfig
from bertwright.serve.error_replies import body_schema
from bertwright.serve.errors import HttpError
from bertwright.serve.service import service_of

DRAIN = 8
"""A body that is too large is read and thrown away up to this many times the limit: a client that
is disconnected while it sends never sees the reason."""
SMALL = 1024
"""Bytes of a body that is parsed on the event loop; a larger one is parsed in a thread."""
JSON = [(b"content-type", b"application/json")]


class ParsedRequest(Request):
    """A request whose body has been read and parsed, and is JSON whatever its headers say."""

    def __init__(self, request: Request, content: bytes, parsed: object) -> None:
        others = [pair for pair in request.scope["headers"] if pair[0] != b"content-type"]
        super().__init__({**request.scope, "headers": others + JSON}, request.receive)
        self.content, self.parsed = content, parsed

    async def body(self) -> bytes:
        """Return the bytes of the body."""
        return self.content

    async def json(self) -> object:
        """Return the parsed body."""
        return self.parsed


class BoundedRoute(APIRoute):
    """A route of FastAPI whose body is read within the server's limits."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that replies to a request."""
        handle, schema = super().get_route_handler(), body_schema(self)
        if schema is None:
            return handle

        async def read_and_handle(request: Request) -> Response:
            service = service_of(request)
            content = await read_body(request, service.config)
            if len(content) <= SMALL:
                parsed = parse(content)
            else:
                parsed = await service.threads.run(parse_as, schema, content)
            return await handle(ParsedRequest(request, content, parsed))

        return read_and_handle


async def read_body(request: Request, config: ServeConfig) -> bytes:
    """Return the body of a request.

    Raises:
        HttpError: it is too large or too slow, or the client left.
    """
    most, size = config.max_body_bytes, 0
    parts: list[bytes] = []
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most * DRAIN:  # too much to wait for
        raise HttpError(413, "too_large", f"the body has more than {most} bytes")
    try:
        async with asyncio.timeout(config.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size <= most:
                    parts.append(part)
                elif size > most * DRAIN:
                    break
    except TimeoutError as error:
        reason = f"the body took more than {config.body_seconds:g} seconds"
        raise HttpError(408, "too_slow", reason) from error
    except ClientDisconnect as error:
        raise HttpError(499, "gone", "the client left") from error
    if size > most:
        raise HttpError(413, "too_large", f"the body has more than {most} bytes")
    return b"".join(parts)


def parse(content: bytes) -> object:
    """Return parsed JSON, or raise `RequestValidationError` as FastAPI does."""
    try:
        parsed: object = orjson.loads(content)
    except (orjson.JSONDecodeError, RecursionError) as error:
        problem = {"type": "json_invalid", "loc": ("body",), "msg": "JSON decode error"}
        raise RequestValidationError([problem]) from error
    return parsed


def parse_as(schema: type[BaseModel], content: bytes) -> BaseModel:
    """Return a validated body, which FastAPI then takes as it is; or raise
    `RequestValidationError`."""
    try:
        return schema.model_validate(parse(content))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        located = [{**problem, "loc": ("body", *problem["loc"])} for problem in problems]
        raise RequestValidationError(located) from None
