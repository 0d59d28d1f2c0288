"""Errors of the server: an HTTP status and a JSON body, which never has text of the request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

MAX_MESSAGE = 1000
"""The most characters of a message, so that the reply to an error stays below 2 KB."""


class HttpError(Exception):
    """A request is refused, for the reason in `message`."""

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
        """The JSON body, in the form of OpenAI's errors."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {"code": self.code, "message": self.message, "type": kind, "param": None}
        # not by orjson: the engine runs where the packages of the server are not installed
        return json.dumps({"error": error}, separators=(",", ":"), ensure_ascii=False).encode()

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
    """The model has none of the heads that a route reads (status 400)."""

    def __init__(self, message: str, wanted: Sequence[str]) -> None:
        super().__init__(400, "no_head", message)
        self.wanted = wanted
        """The heads, or kinds of tasks, any of which the route reads."""


def invalid_request(message: str, code: str = "bad_request") -> HttpError:
    """Return the error of a wrong request (status 400)."""
    return HttpError(400, code, message)


def busy(message: str) -> HttpError:
    """Return the error that the queue is full (status 429); the same request may succeed later."""
    return HttpError(429, "busy", message, retry_after=1)


def unavailable(message: str, code: str = "unavailable") -> HttpError:
    """Return an error that is not the fault of the request (status 503)."""
    return HttpError(503, code, message, retry_after=1)
