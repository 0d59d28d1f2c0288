"""A client's request for a model: what a route awaits, within the limits of the request.

Texts are tokenized in a thread (`serve/threads.py`), computed in batches with those of other
requests (`engine/batching.py`), and a large reply is made and written in a thread again.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, Generic, ParamSpec, TypeVar

from fastapi import Depends
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bertwright.arrays import Float32s
from bertwright.config.vectors import VectorConfig
from bertwright.inference.encode import Text
from bertwright.serve.engine.batching import QueuedItem
from bertwright.serve.engine.engine import Engine
from bertwright.serve.engine.generation.flight import Generation, Piece, PromptTexts
from bertwright.serve.engine.generation.way import Way
from bertwright.serve.engine.items import (
    Prepared,
    PreparedPrompts,
    task_items,
    token_items,
    vector_items,
)
from bertwright.serve.errors import busy, invalid_request
from bertwright.serve.event_stream import Events, EventStream
from bertwright.serve.http.bodies import SMALL
from bertwright.serve.http.middleware import record_of
from bertwright.serve.limits import check_reply, check_request, check_tokens
from bertwright.serve.schemas.replies import About, dump
from bertwright.serve.schemas.requests import NamedModel
from bertwright.serve.service import service_of

LARGE = 200
"""Tokens of a request beyond which its reply is made in a thread."""
BUFFER = 65536
"""Bytes of a reply that may lie in a connection's buffer while its request counts as done."""
REPLIES = 1 << 30
"""The most bytes, approximately, of large replies that are made or wait for their readers."""

P = ParamSpec("P")
Q = TypeVar("Q", bound=Prepared)
R = TypeVar("R")
T = TypeVar("T")


class ClientCall:
    """A client's request for a model, and the reply that is made to it."""

    def __init__(self, request: Request, is_large: bool) -> None:
        """Read the headers of the request; `is_large` says whether its body is large.

        Raises:
            HttpError: the header X-Timeout is not a number of seconds.
        """
        self.service = service_of(request)
        self.config = self.service.config
        self.headers: dict[str, str] = {}
        """Headers of the reply, beside the usual ones."""
        self.is_gone: Callable[[], bool] = request.scope["state"].get("is_gone", _never)
        """Tells whether the client has left."""
        self.record = record_of(request.scope)
        self.read: Prepared | None = None
        """What the model reads, once it is known."""
        self._is_large = is_large
        self._begin, self._timeout = time.monotonic(), _timeout(request.headers.get("x-timeout"))

    def until(self, seconds: float = math.inf) -> float:
        """Return the time of the monotonic clock at which `seconds` have passed since the request,
        or fewer if its client waits no longer."""
        return self._begin + min(seconds, self._timeout)

    async def model(self, body: NamedModel) -> ModelCall:
        """Return the model of a request, whose items and characters are within the limits.

        Raises:
            HttpError: there is no such model, or the request is too large.
        """
        engine = self.service.engine(body.model)
        await self.beside(check_request, body, self.config)
        return ModelCall(self, engine)

    async def beside(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `call` returns, run in a thread if the request is large."""
        if self._is_large:
            return await self.service.threads.run(call, *args, **kwargs)
        return call(*args, **kwargs)

    def accept(self, read: Prepared) -> None:
        """Accept what the model has to read, and reserve memory for the reply until it is sent.

        Raises:
            HttpError: the model would read too much, or the reply would be too large, now or ever.
        """
        check_tokens(read.tokens, self.config)
        check_reply(read.numbers, read.characters)
        service = self.service
        is_large = read.size > REPLIES // self.config.queue_requests
        if is_large and service.reply_bytes + read.size > REPLIES:
            raise busy("too many large replies wait for their readers; try again")
        service.reply_bytes += read.size
        self.record.reply_bytes += read.size
        self.read, self._is_large = read, self._is_large or read.tokens > LARGE

    async def respond(self, reply: BaseModel | EventStream) -> Response:
        """Return the reply as it is sent, and count what the model has read."""
        if isinstance(reply, EventStream):
            response: Response = reply
        else:
            response = json_response(await self.beside(dump, reply), self.headers)
        if (read := self.read) is not None:
            name, truncated = read.engine.name, len(read.truncated)
            self.service.metrics.read(name, read.tokens, truncated, read.unknown_words)
            self.record.facts |= {"model": name, "tokens": read.tokens}
        return response

    async def stream(self, texts: Generating, events: Events) -> EventStream:
        """Return the reply that sends the events made of some texts. The first one is awaited, so
        that a request that is refused has the status of its error."""
        return EventStream(await anext(events), events, texts.end, self.headers)


class ModelCall:
    """A model as one request uses it."""

    def __init__(self, call: ClientCall, engine: Engine) -> None:
        self.call, self.engine = call, engine

    async def embed(
        self,
        texts: list[Text],
        config: VectorConfig,
        truncate: bool,
        windows: bool = False,
        numbers: int = 0,
    ) -> Computed[Float32s]:
        """Return a vector for each text, `[W]`."""
        return await self.compute(vector_items, texts, config, truncate, windows, numbers)

    async def tokens(
        self, texts: list[Text], config: VectorConfig, truncate: bool, windows: bool
    ) -> Computed[Float32s]:
        """Return the vectors of the tokens of each text, `[T, W]`."""
        return await self.compute(token_items, texts, config, truncate, windows)

    async def predict(
        self, task: str, inputs: Sequence[Any], truncate: bool, characters: int = 0
    ) -> Computed[Any]:
        """Return the prediction of a task's head for each input."""
        limits = self.call.config
        return await self.compute(task_items, task, inputs, truncate, limits, characters)

    async def compute(
        self,
        prepare: Callable[Concatenate[Engine, P], Prepared],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Computed[Any]:
        """Return what the device computes for the items that `prepare` makes of a request.

        Raises:
            HttpError: the request is refused, or it waits too long.
        """
        call = self.call
        read = await self.prepare(prepare, *args, **kwargs)
        items = [QueuedItem(self.engine, item, item.tokens) for item in read.items]
        seconds = call.until(call.config.deadline) - time.monotonic()
        results = await call.service.device.run(items, seconds, call.is_gone)
        return Computed(results, read)

    async def prepare(
        self,
        prepare: Callable[Concatenate[Engine, P], Q],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Q:
        """Return what the model reads for a request; `HttpError` if the request is refused."""
        read = await self.run(prepare, *args, **kwargs)
        self.call.accept(read)
        return read

    async def run(
        self,
        call: Callable[Concatenate[Engine, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return what `call` returns for the model, run in a thread."""
        service = self.call.service
        if self.engine.tokenizer.is_apart:
            return await service.run_apart(call, self.engine, *args, **kwargs)
        return await service.threads.run(call, self.engine, *args, **kwargs)

    async def generate(
        self,
        way: Way,
        prepare: Callable[Concatenate[Engine, P], PreparedPrompts],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Generating:
        """Begin to generate texts from the prompts that `prepare` makes of a request.

        Raises:
            HttpError: the request is refused.
        """
        call = self.call
        read = await self.prepare(prepare, *args, **kwargs)
        begin, end = call.until(call.config.deadline), call.until()
        generation = Generation(read.prompts, begin, end, call.is_gone)
        on_tokens = call.service.metrics.generated.labels(self.engine.name).inc
        self.engine.flight(way, call.service.device, on_tokens).add(generation)
        return Generating(generation, read, call.record.facts)


@dataclass
class Computed(Generic[R]):
    """What the device computed for a request."""

    results: list[R]
    """A result for each item, in order."""
    read: Prepared

    @property
    def about(self) -> About:
        """What every reply says of how it was made."""
        return self.read.about


class Generating:
    """The texts of a request while they are generated."""

    def __init__(
        self, generation: Generation, read: PreparedPrompts, facts: dict[str, object]
    ) -> None:
        self.read, self.generated = read, 0
        """`generated` is the number of tokens so far."""
        self._generation, self._facts = generation, facts

    @property
    def about(self) -> About:
        """What every reply says of how it was made."""
        return self.read.about

    @property
    def prompts(self) -> list[PromptTexts]:
        """The prompts as they were read, with their ids."""
        return self.read.prompts

    def __aiter__(self) -> Generating:
        return self

    async def __anext__(self) -> list[Piece]:
        """Return what was generated since the last time."""
        try:
            made = await self._generation.more()
        except BaseException:
            self.end()
            raise
        if not made:
            raise StopAsyncIteration
        self.generated += sum(len(piece.ids) for piece in made)
        self._facts["generated"] = self.generated
        return made

    def end(self) -> None:
        """End the generation, if it has not ended."""
        self._generation.end()

    async def whole(self) -> list[Piece]:
        """Return a piece for each text, which is the whole text."""
        return [piece async for made in self for piece in made]


async def get_call(request: Request) -> ClientCall:
    """Return the request that a route serves."""
    return ClientCall(request, is_large=len(await request.body()) > SMALL)


Call = Annotated[ClientCall, Depends(get_call)]


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


def _never() -> bool:
    return False
