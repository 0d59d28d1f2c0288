"""What a server says no with: a status, a code and a reason that holds no text of a caller."""

from __future__ import annotations

LONGEST = 1000
"""Characters of a reason; with its envelope a reply stays below 2 KB."""


class Refusal(Exception):
    """A request that gets no answer, and why."""

    def __init__(
        self, status: int, code: str, message: str, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after
        self.message = message if len(message) <= LONGEST else message[: LONGEST - 3] + "..."


def bad(message: str, code: str = "bad_request") -> Refusal:
    """400."""
    return Refusal(400, code, message)


def busy(message: str) -> Refusal:
    """429: too much waits already; the same request may go through in a second."""
    return Refusal(429, "busy", message, retry_after=1)


def unavailable(message: str, code: str = "unavailable") -> Refusal:
    """503: not this request's fault."""
    return Refusal(503, code, message, retry_after=1)
