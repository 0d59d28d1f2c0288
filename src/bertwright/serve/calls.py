"""How a request for a model is answered: prepared in a thread, computed in batches, replied to."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bertwright.serve.bodies import SMALL
from bertwright.serve.engine.batching import QueuedItem
from bertwright.serve.errors import busy, invalid_request
from bertwright.serve.middleware import record_of
from bertwright.serve.preparing import B, Prepare, Prepared, R, prepare
from bertwright.serve.schemas.replies import dump
from bertwright.serve.service import service_of

LARGE = 200
"""Tokens of a request beyond which its reply is made in a thread."""
BUFFER = 65536
"""Bytes of a reply that may lie in a connection's buffer while its request counts as done."""
REPLIES = 1 << 30
"""The most bytes, approximately, of large replies that are made or wait for their readers."""


class ModelCall:
    """A client's request for a model."""

    def __init__(self, request: Request, is_large: bool) -> None:
        """Read the headers of the request; `is_large` says whether its body is large.

        Raises:
            HttpError: the header X-Timeout is not a number of seconds.
        """
        self.service, self.is_large = service_of(request), is_large
        self.record = record_of(request.scope)
        self.is_gone: Callable[[], bool] = request.scope["state"].get("is_gone", _never)
        """Tells whether the client has left."""
        self._timeout = _timeout(request.headers.get("x-timeout"))

    def seconds(self, most: float) -> float:
        """Return the seconds that something may take: `most`, or fewer if the client says so."""
        return min(most, self._timeout)

    async def prepare(self, route: Prepare[B, R], body: B) -> Prepared[R]:
        """Return the request, checked and tokenized, or raise `HttpError`."""
        service = self.service
        service.check_loaded()
        call = partial(prepare, route, service.engines, body, service.config)
        if service.tokenizes_apart(getattr(body, "model", None)):
            return await service.run_apart(call)
        return await (service.threads.run if self.is_large else service.threads.run_short)(call)

    async def reply(self, route: Prepare[B, R], body: B) -> Response:
        """Return the reply to the request, or raise `HttpError`."""
        service, begin = self.service, time.monotonic()
        deadline = begin + self.seconds(service.config.deadline)
        prepared = await self.prepare(route, body)
        self._reserve(prepared.size)
        items = [QueuedItem(prepared.engine, item, item.tokens) for item in prepared.items]
        results = await service.device.run(items, deadline - time.monotonic(), self.is_gone)
        if self.is_large or prepared.tokens > LARGE:
            content = await service.threads.run(_write, prepared, results)
        else:
            content = _write(prepared, results)
        self.count(prepared)
        return json_response(content, prepared.headers)

    def count(self, prepared: Prepared[Any]) -> None:
        """Count what a model has read for the request, in the metrics and the log."""
        name, tokens = prepared.engine.name, prepared.tokens
        cut, unknown = len(prepared.truncated), prepared.unknown_words
        self.service.metrics.read(name, tokens, cut, unknown)
        self.record.facts |= {"model": name, "tokens": tokens}

    def _reserve(self, size: int) -> None:
        """Reserve memory for the reply, until it has been sent; `HttpError` if there is none."""
        service = self.service
        is_large = size > REPLIES // service.config.queue_requests
        if is_large and service.reply_bytes + size > REPLIES:
            raise busy("too many large replies wait for their readers; try again")
        service.reply_bytes += size
        self.record.reply_bytes += size


async def get_call(request: Request) -> ModelCall:
    """Return the request that a route serves."""
    return ModelCall(request, is_large=len(await request.body()) > SMALL)


Call = Annotated[ModelCall, Depends(get_call)]


def _timeout(header: str | None) -> float:
    """Return the seconds that a client waits for its reply: without a header, without limit."""
    if header is None:
        return math.inf
    try:
        seconds = float(header)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise invalid_request("X-Timeout must be a number of seconds above 0")
    return seconds


def json_response(content: bytes, headers: dict[str, str] | None = None) -> Response:
    """Return a reply of JSON. The request of a large one ends when the client has read it."""
    if len(content) <= BUFFER:
        return Response(content, headers=headers, media_type="application/json")
    sized = {**(headers or {}), "content-length": str(len(content))}
    return StreamingResponse(_whole(content), headers=sized, media_type="application/json")


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _write(prepared: Prepared[Any], results: list[Any]) -> bytes:
    return dump(prepared.reply(results))


def _never() -> bool:
    return False
