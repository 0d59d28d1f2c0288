"""A reply of server-sent events.

A failure after the first event is sent as an event with an `error`, and no `[DONE]` follows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bertwright.serve.errors import HttpError, unavailable
from bertwright.serve.schemas.replies import dump

Events = AsyncIterator[Sequence[object]]
"""Yields the events that exist, as JSON objects, and waits for more."""


class EventStream(Response):
    """Events that are sent as they come."""

    def __init__(
        self,
        first: Sequence[object],
        events: Events,
        end: Callable[[], None],
        headers: Mapping[str, str],
    ) -> None:
        """Begin with the events that exist; the others are awaited. `end` is called at the end,
        also if the client has left."""
        self.first, self.events, self.end = first, events, end
        self.status_code, self.background = 200, None
        self.init_headers({"content-type": "text/event-stream; charset=utf-8", **headers})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        last = b"data: [DONE]\n\n"
        try:
            await send(start)
            await _send(self.first, send)
            async for made in self.events:
                await _send(made, send)
        except HttpError as error:
            last = b"data: %b\n\n" % error.body
        except asyncio.CancelledError:
            if not scope["app"].state.service.draining:
                raise
            # the time to drain is over; the client learns that the text is not whole
            last = b"data: %b\n\n" % unavailable("the server ends", "draining").body
        finally:
            self.end()
        await send({"type": "http.response.body", "body": last})


async def _send(events: Sequence[object], send: Send) -> None:
    body = b"".join(b"data: %b\n\n" % dump(event) for event in events)
    await send({"type": "http.response.body", "body": body, "more_body": True})
