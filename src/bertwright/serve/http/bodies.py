"""Reading the body of a request: within limits, and validated beside the event loop if it is large.

FastAPI by itself reads a body of any size and parses it with `json` on the event loop, so that one
client could fill the memory or stop all others. A `BoundedRoute` reads and validates the body
first, and gives FastAPI the result. This is FastAPI's own way to change how requests are read
("Custom Request and APIRoute class" in its documentation).

What pydantic reports is turned into a message that names the key and what was expected, and never
repeats what the client sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import orjson
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from bertwright.config.serve import ServeConfig
from bertwright.serve.errors import HttpError, invalid_request
from bertwright.serve.service import service_of

DRAIN = 8
"""A body that is too large is read and thrown away up to this many times the limit: a client that
is disconnected while it sends never sees the reason."""
SMALL = 1024
"""Bytes of a body that is parsed on the event loop; a larger one is parsed in a thread."""
JSON = [(b"content-type", b"application/json")]


class ParsedRequest(Request):
    """A request whose body has been read and validated, and is JSON whatever its headers say."""

    def __init__(self, request: Request, content: bytes, parsed: BaseModel) -> None:
        others = [pair for pair in request.scope["headers"] if pair[0] != b"content-type"]
        super().__init__({**request.scope, "headers": others + JSON}, request.receive)
        self.content, self.parsed = content, parsed

    async def body(self) -> bytes:
        """Return the bytes of the body."""
        return self.content

    async def json(self) -> BaseModel:
        """Return the validated body."""
        return self.parsed


class BoundedRoute(APIRoute):
    """A route of FastAPI whose body is read within the server's limits."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that replies to a request."""
        handle, field = super().get_route_handler(), self.body_field
        schema = None if field is None else field.field_info.annotation
        assert isinstance(schema, type)
        assert issubclass(schema, BaseModel)

        async def read_and_handle(request: Request) -> Response:
            service = service_of(request)
            content = await read_body(request, service.config)
            if len(content) <= SMALL:
                body = parse(schema, content)
            else:
                body = await service.threads.run(parse, schema, content)
            return await handle(ParsedRequest(request, content, body))

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


def parse(schema: type[BaseModel], content: bytes) -> BaseModel:
    """Return a validated body, which FastAPI then takes as it is; or raise `HttpError`."""
    try:
        return schema.model_validate(orjson.loads(content))
    except (orjson.JSONDecodeError, RecursionError) as error:
        expected = "UTF-8, not compressed, no lone surrogates"
        raise invalid_request(f"the body is not valid JSON ({expected})") from error
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        worst = max(problems, key=_weight)
        message = _message(worst, schema.model_fields, is_one_of_many=len(problems) > 1)
        raise invalid_request(message) from None


def _weight(problem: ErrorDetails) -> tuple[bool, int, bool]:
    """Return how well a problem describes what is wrong, as a key to sort by.

    Where several types are allowed, the problem that lies deepest is of the type that was meant.
    """
    kind = problem["type"]
    return kind == "extra_forbidden", len(problem["loc"]), not kind.endswith("_type")


def _message(problem: ErrorDetails, keys: Mapping[str, FieldInfo], is_one_of_many: bool) -> str:
    """Return a sentence that names the key with a problem, and what was expected."""
    kind, message, location = problem["type"], problem["msg"], problem["loc"]
    if not location:
        return "the body must be a JSON object" if kind == "model_type" else message
    name, *path = location
    takes = keys[str(name)].description if name in keys else None
    if kind == "extra_forbidden" and not path:
        return f"an unknown key; known keys are: {', '.join(keys)}"
    if kind == "missing":
        return f"{name}: {path[-1]} is missing" if path else f"{name} is missing: {takes}"
    where = "".join(f", item {part}" for part in path if isinstance(part, int))
    if is_one_of_many and not where and kind.endswith("_type") and takes:
        message += f" ({takes})"  # none of several types was meant
    return f"{name}{where}: {message}"
