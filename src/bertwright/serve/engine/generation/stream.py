"""The reply to a request for generated text: one JSON object, or server-sent events.

The status of a stream is sent when its first event exists, so that a refused request has the status
of its error. A later failure is sent as an event with an `error`, and no `[DONE]` follows it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bertwright.config.serve import ServeConfig
from bertwright.decoding.search import RowsInFlight
from bertwright.inference.encode import ModelRunner
from bertwright.serve.calls import ModelCall, json_response
from bertwright.serve.engine.engine import Engine
from bertwright.serve.engine.generation.flight import (
    TOKENS,
    Flight,
    Generation,
    Piece,
    PromptTexts,
    Searches,
)
from bertwright.serve.errors import HttpError, unavailable
from bertwright.serve.preparing import B, Json, Prepared
from bertwright.serve.schemas.replies import dump
from bertwright.serve.service import Service


@dataclass(frozen=True)
class Way:
    """A way in which a model generates. All texts of one way are generated together."""

    name: str
    make_rows: Callable[[ModelRunner], RowsInFlight | Searches]
    """Takes a model and returns the rows or searches that generate."""
    is_of_encoder: bool = True
    """Whether the encoder itself generates, without a decoder of its own."""

    def keeps_tokens(self, runner: ModelRunner) -> bool:
        """Return whether what the model keeps of a text grows with the text.

        An encoder that reads texts of any length keeps a state of constant size (for n-grams, the
        last tokens).
        """
        return not (self.is_of_encoder and runner.spec.max_length is None)


@dataclass(kw_only=True)
class PreparedGeneration(Prepared[Any]):
    """Prompts, and how the texts that continue them become a reply.

    `finish` gets one piece for each text, which is the whole text.
    """

    way: Way
    prompts: list[PromptTexts] = field(default_factory=list)
    event: Callable[[Piece], object] | None = None
    """Makes an event of the stream from a piece; None: the reply is not a stream."""
    last: Callable[[int], Json | None] = lambda generated: None
    """Makes the event before `[DONE]`, if any, from the number of tokens that were generated."""

    @property
    def tokens(self) -> int:
        """The number of tokens of the prompts."""
        return sum(len(prompt.ids) for prompt in self.prompts)

    @property
    def unknown_words(self) -> int | None:
        """The number of words of the prompts that the model has no vector for, or None."""
        return self.engine.unknown_words(prompt.ids for prompt in self.prompts)


async def respond(
    call: ModelCall, route: Callable[[Engine, B, ServeConfig], PreparedGeneration], body: B
) -> Response:
    """Return the reply to a request for text, or raise `HttpError`."""
    begin, config = time.monotonic(), call.service.config
    end_by = begin + call.seconds(config.generation_seconds)
    begin_by = min(end_by, begin + config.deadline)
    prepared = await call.prepare(route, body)
    assert isinstance(prepared, PreparedGeneration)
    generation = Generation(prepared.prompts, begin_by, end_by, call.is_gone)
    _flight(call.service, prepared.engine, prepared.way).add(generation)
    pieces: list[Piece] = []
    try:
        while more := await generation.more():
            pieces += more
            if prepared.event is not None:
                break
        call.count(prepared)
        if prepared.event is not None:
            return EventStream(prepared, generation, pieces, call.record.facts)
        call.record.facts["generated"] = sum(len(piece.ids) for piece in pieces)
        return json_response(dump(prepared.reply(pieces)), prepared.headers)
    except BaseException:
        generation.end()
        raise


def _flight(service: Service, engine: Engine, way: Way) -> Flight:
    if way.name not in engine.flights:
        batcher = service.device
        on_tokens = service.metrics.generated.labels(engine.name).inc
        make_rows = partial(way.make_rows, engine.runner)
        memory = TOKENS if way.keeps_tokens(engine.runner) else None
        engine.flights[way.name] = Flight(make_rows, batcher, on_tokens, memory)
    return engine.flights[way.name]


class EventStream(Response):
    """A reply of server-sent events, which are sent as the text is generated."""

    def __init__(
        self,
        prepared: PreparedGeneration,
        generation: Generation,
        pieces: list[Piece],
        facts: dict[str, object],
    ) -> None:
        """Begin with the pieces that exist; the others are awaited from `generation`."""
        self.prepared, self.generation, self.pieces = prepared, generation, pieces
        self.facts, self.status_code, self.background = facts, 200, None
        own = {"content-type": "text/event-stream; charset=utf-8"}
        self.init_headers(own | (prepared.headers or {}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        event, generated = self.prepared.event, 0
        assert event is not None
        try:
            await send(start)
            pieces = self.pieces
            while pieces:
                generated += sum(len(piece.ids) for piece in pieces)
                body = b"".join(b"data: %b\n\n" % dump(event(piece)) for piece in pieces)
                await send({"type": "http.response.body", "body": body, "more_body": True})
                pieces = await self.generation.more()
            last = self.prepared.last(generated)
            body = b"" if last is None else b"data: %b\n\n" % dump(last)
            body += b"data: [DONE]\n\n"
        except HttpError as error:
            body = b"data: %b\n\n" % error.body
        except asyncio.CancelledError:
            if not scope["app"].state.service.draining:
                raise
            # the time to drain is over; the client learns that the text is not whole
            body = b"data: %b\n\n" % unavailable("the server ends", "draining").body
        finally:
            self.generation.end()
            self.facts["generated"] = generated
        await send({"type": "http.response.body", "body": body})
