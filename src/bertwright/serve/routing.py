"""Routes of models: FastAPI's, whose bodies are bounded, and whose replies are written as JSON
beside the event loop if they are large.

FastAPI by itself would validate a reply again, and write the numbers of vectors one by one.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from bertwright.serve.calls import ClientCall
from bertwright.serve.event_stream import EventStream
from bertwright.serve.http.bodies import BoundedRoute
from bertwright.serve.schemas.replies import ErrorReply

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorReply, "description": "Refused."} for status in ("4XX", "5XX")
}
Endpoint = Callable[..., Awaitable[BaseModel | EventStream]]


class ModelRouter(APIRouter):
    """A router whose functions take a `Call` as `call` and return the schema of their reply."""

    def __init__(self) -> None:
        super().__init__(route_class=BoundedRoute, responses=ERRORS)

    def add_api_route(self, path: str, endpoint: Endpoint, **options: Any) -> None:
        """Add a route whose endpoint returns a schema, which is written as the reply."""
        super().add_api_route(path, _written(endpoint), **options)


def _written(endpoint: Endpoint) -> Callable[..., Awaitable[Response]]:
    """Return a function that gives the reply of an endpoint as it is sent."""

    @wraps(endpoint)
    async def respond(*, call: ClientCall, **parameters: Any) -> Response:
        return await call.respond(await endpoint(call=call, **parameters))

    # FastAPI reads the parameters of a route from it
    vars(respond)["__signature__"] = inspect.signature(endpoint, eval_str=True)
    return respond
