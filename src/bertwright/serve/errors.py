"""Errors of the server: an HTTP status and a JSON body; they never contain the request's text."""

from __future__ import annotations

import json
from collections.abc import Mapping

MAX_MESSAGE = 1000
"""Characters of a message; with its envelope a reply stays below 2 KB."""


class HttpError(Exception):
    """A request that is refused, and why."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after
        short = message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "..."
        self.message = short
        self._more = headers or {}

    @property
    def body(self) -> bytes:
        """The JSON body: OpenAI's envelope."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        own = {"code": self.code, "message": self.message}
        content = {"error": {**own, "type": kind, "param": None}}
        # without orjson: the engine runs where the packages of the server are not installed
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the reply."""
        headers = {"content-type": "application/json", **self._more}
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        if self.status in (408, 413):
            headers["connection"] = "close"
        return headers


class NoHead(HttpError):
    """400: the model has none of the heads that a route reads."""

    def __init__(self, message: str, wanted: tuple[str, ...]) -> None:
        super().__init__(400, "no_head", message)
        self.wanted = wanted
        """Heads, or kinds of tasks."""


def invalid_request(message: str, code: str = "bad_request") -> HttpError:
    """Return the error of a request that is wrong, with status 400."""
    return HttpError(400, code, message)


def busy(message: str) -> HttpError:
    """429: the queue is full; the same request may succeed in a second."""
    return HttpError(429, "busy", message, retry_after=1)


def unavailable(message: str, code: str = "unavailable") -> HttpError:
    """503: not this request's fault."""
    return HttpError(503, code, message, retry_after=1)
