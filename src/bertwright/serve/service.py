"""What a server is made of: its models, the queue of the device, and how a request is served."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import torch
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from bertwright.config.serve import ServeConfig
from bertwright.errors import BertwrightError
from bertwright.serve.auth import ApiKeys
from bertwright.serve.batching import FOR_SHORT, Batcher, QueuedItem, hand_over
from bertwright.serve.engine import Engine, RequestItem, load_engine
from bertwright.serve.errors import HttpError, busy, invalid_request, unavailable
from bertwright.serve.generation.flight import Flight
from bertwright.serve.metrics import ServerMetrics
from bertwright.serve.outputs import Vectors
from bertwright.serve.requests import Prepare, Prepared, prepare

T = TypeVar("T")
Waiting = tuple[Callable[[], Any], asyncio.Future[Any]]
"""A call that waits for a thread, and where its outcome goes."""
DRAIN = 8
"""A body that is too large is read to the end, and thrown away, up to so many times the bound: a
client that is disconnected while it sends never sees the reason."""
SMALL = 1024
"""Bytes of a body that is prepared with others that wait, in one turn of a thread."""
AT_ONCE = 32
"""Requests of such a turn, at most."""
MIN_TOKENS = 256
"""Tokens of a batch on one core, at least."""
LARGE = 200
"""Tokens from which a reply is made in a thread."""
BUFFER = 65536
"""Bytes of a reply that may lie in a connection's buffer while its request counts as done."""
REPLIES = 1 << 30
"""Bytes, about, of the large replies that are made or wait for their readers."""

log = logging.getLogger("bertwright.serve")


def run_batch(cores: int, model: object, items: list[Any], at_once: int) -> list[Any]:
    """What a thread of the device's does with a batch."""
    assert isinstance(model, (Engine, Flight))
    torch.set_num_threads(cores // at_once)  # of this thread
    return list(model.run(items))


def side_by_side(cores: int, batch_tokens: int) -> int:
    """Batches that a processor computes at once, each on one core: cores on one batch wait for each
    other, and for the one that the system gave to others. Many cores all compute one batch."""
    return cores if cores * MIN_TOKENS <= batch_tokens else 1


class Service:
    """Models served to many clients."""

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self.folders = config.models
        self.engines: dict[str, Engine] = {}
        self.metrics = ServerMetrics()
        self.keys: ApiKeys | None = None
        self.read_keys()
        self.active = 0
        """Requests that have no whole reply yet."""
        self.replies = 0
        """Bytes, about, of their replies."""
        self.draining = False
        self.failing = False
        self.is_stuck = False
        """Whether a thread that tokenizes did not end in time."""
        self.error: Exception | None = None
        """Why no model could be loaded."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when the process should end."""
        self.batcher: Batcher | None = None
        self._cores = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="tokenize")
        self._unprepared: list[Waiting] = []
        self._preparing = False
        """Whether a turn of those is under way."""
        self._swapping = asyncio.Lock()
        self._loading: asyncio.Task[None] | None = None
        self._loads: set[Future[Engine]] = set()
        """Those that have not ended, whether or not they are still awaited."""

    @property
    def is_busy(self) -> bool:
        """Whether a thread loads a model, tokenizes or runs a batch, which may never end."""
        running = self.batcher is not None and self.batcher.is_busy
        return bool(self._loads) or self.is_stuck or running

    @property
    def is_ready(self) -> bool:
        """Whether requests are served: models loaded, warm, checked; no end begun."""
        working = self.batcher is not None and self.batcher.is_working
        return bool(self.engines) and working and not (self.draining or self.failing)

    def read_keys(self) -> None:
        """Read the file of keys; `ConfigError` if it cannot be read, and the old keys stay."""
        if self.config.api_keys is not None:
            self.keys = ApiKeys(self.config.api_keys)

    async def start(self) -> None:
        """Begin; models load while /livez replies already."""
        self._loading = asyncio.get_running_loop().create_task(self._load())

    async def stop(self) -> None:
        """End, when no request is active any more."""
        self.draining = True
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        if self.batcher is not None:
            self.batcher.stop()
        self._pool.shutdown(wait=not self.is_stuck)

    async def _load(self) -> None:
        config, engines = self.config, dict[str, Engine]()
        try:
            for name, folder in self.folders.items():
                engines[name] = await self._loaded(name, folder)
                _log_model("model loaded", engines[name])
            tokens, at_once = self._batches(next(iter(engines.values())))
            queue = config.queue_tokens, config.queue_requests
            batcher = Batcher(partial(run_batch, self._cores), tokens, *queue, at_once=at_once)
            batcher.failures, batcher.batch_timeout = config.failures, config.batch_timeout
            batcher.on_failing, self.batcher = self._fail, batcher
            await self._rehearse(batcher, engines)
        except Exception as error:
            self.error = error
            self.on_end()
            return
        self.metrics.follow(batcher)
        self.engines = engines
        freeze_loaded()
        log.info("ready", extra={"facts": {"models": list(engines)}})

    async def _rehearse(self, batcher: Batcher, engines: dict[str, Engine]) -> None:
        """Have each thread of a processor compute a batch beyond the bound of those to come:
        it gives its memory a size that would else grow for hours, a little with every batch of an
        odd kind."""
        each = 2 * batcher.batch_tokens // batcher.at_once
        for engine in engines.values():
            if engine.runner.device.type == "cpu" and engine.spec.has_vectors:
                items = [one_batch(engine, each) for _ in range(batcher.at_once)]
                try:
                    await batcher.run(items, self.config.load_timeout)
                except HttpError as error:
                    raise BertwrightError(
                        f"a batch could not be computed ({error.code}), as the log says; "
                        f"--batch-tokens below {batcher.batch_tokens:,} makes batches smaller"
                    ) from error

    async def _loaded(self, name: str, folder: str) -> Engine:
        """A model, loaded in a thread that ends: a thread that has run products keeps a team of
        OpenMP's, and with two teams on the cores none waits by spinning (1.5 times the latency).
        If it is not loaded in time the thread goes on."""
        once = ThreadPoolExecutor(1, thread_name_prefix="load")
        loads = once.submit(self._load_one, name, folder)
        once.shutdown(wait=False)
        self._loads.add(loads)
        loads.add_done_callback(self._loads.discard)
        try:
            async with asyncio.timeout(self.config.load_timeout):
                return await asyncio.wrap_future(loads)
        except TimeoutError as error:
            if loads.done():  # it is of the system
                raise
            took = f"took more than {self.config.load_timeout:g} seconds"
            more = "allow more with --load-timeout"
            raise BertwrightError(f"loading {folder} {took}; {more}") from error

    def _load_one(self, name: str, folder: str) -> Engine:
        torch.set_num_threads(self._cores)  # else those that another thread was given last
        engine = load_engine(name, folder, self.config.device, self.config.precision)
        tokens, at_once = self._batches(engine)
        for parts in sorted({1, at_once}, reverse=True):
            torch.set_num_threads(self._cores // parts)
            share = tokens // parts
            engine.warm_up(share if parts == 1 else share + share // FOR_SHORT)
        return engine

    def _batches(self, engine: Engine) -> tuple[int, int]:
        """Tokens of a batch, and how many batches are computed at once."""
        on_cpu = engine.runner.device.type == "cpu"
        tokens = self.config.batch_tokens or (1024 if on_cpu else 32768)
        return tokens, side_by_side(self._cores, tokens) if on_cpu else 1

    def _fail(self) -> None:
        """The device or a thread is at fault: refuse requests and end."""
        self.failing = True
        log.error("failing")
        self.on_end()

    async def swap(self) -> None:
        """Load all models again from their folders and replace the old ones, which serve until
        then, and compute the requests that they have. Where one cannot be loaded the old one stays,
        as the log says, and the others are replaced."""
        async with self._swapping:
            for name, folder in self.folders.items():
                try:
                    self.engines[name] = await self._loaded(name, folder)
                except Exception as error:
                    facts = {"model": name, "error": f"the old model stays: {error!r}"}
                    log.error("not swapped", extra={"facts": facts})
                else:
                    self.metrics.swaps.inc()
                    _log_model("model swapped", self.engines[name])
            freeze_loaded()
            await asyncio.to_thread(return_memory)

    def check_loaded(self) -> None:
        """Raise `HttpError` while the first models are being loaded."""
        if not self.engines:
            raise unavailable("models are being loaded", "loading")

    async def in_thread(self, call: Callable[..., T], *args: Any, alone: bool = True) -> T:
        """What `call` returns, beside the event loop; not `alone`: with all that wait in one turn
        of a thread, as handing a short one over by itself takes longer than its work. If the thread
        does not end in time, it raises `HttpError`: the server is failing."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        waiting = partial(call, *args), future
        if alone:
            self._begin_turn([waiting])
        else:
            self._unprepared.append(waiting)
            if not self._preparing:
                self._preparing = True
                loop.call_soon(self._next_turn)
        return await future

    def _next_turn(self) -> None:
        turn, self._unprepared = self._unprepared[:AT_ONCE], self._unprepared[AT_ONCE:]
        self._preparing = bool(turn)
        if turn:
            self._begin_turn(turn, self._next_turn)

    def _begin_turn(self, turn: Sequence[Waiting], then: Callable[[], None] = lambda: None) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self.config.batch_timeout, self._give_up, turn)

        def end(done: Future[list[Any]]) -> None:
            timer.cancel()
            for (_, future), outcome in zip(turn, done.result(), strict=True):
                if future.done():  # its client left
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
            then()

        hand_over(loop, self._pool, end, _outcomes, [call for call, _ in turn])

    def _give_up(self, turn: Sequence[Waiting]) -> None:
        """The turn does not end."""
        self.is_stuck = True
        self._fail()
        for _, future in [*turn, *self._unprepared]:
            if not future.done():
                future.set_exception(unavailable("a text is not tokenized in time", "failing"))

    async def prepared(self, route: Prepare, body: Any, request: Request) -> Prepared:
        """A request that is checked and tokenized; `HttpError` if it is refused."""
        self.check_loaded()
        large = request.scope["state"]["is_large"]
        given = route, self.engines, body, self.config
        return await self.in_thread(prepare, *given, alone=large)

    async def respond(self, route: Prepare, body: Any, request: Request) -> Response:
        """The reply to a request, which counts until it is sent; `HttpError` if it is refused."""
        config = self.config
        end = time.monotonic() + seconds_of(request.scope, config.deadline)
        prepared = await self.prepared(route, body, request)
        assert self.batcher is not None
        size, engine = prepared.size, prepared.engine
        if size > REPLIES // config.queue_requests and self.replies + size > REPLIES:
            raise busy("too many large replies wait for their readers; try again")
        self.replies += size
        try:
            items = [QueuedItem(engine, item, item.tokens) for item in prepared.items]
            left, tokens = end - time.monotonic(), prepared.tokens
            results = await self.batcher.run(items, left, partial(is_gone, request.receive))
            if tokens > LARGE:
                content, headers = await self.in_thread(prepared.reply, results)
            else:
                content, headers = prepared.reply(results)
        except BaseException:
            self.replies -= size
            raise
        self.metrics.read(engine.name, tokens, len(prepared.truncated))
        request.scope["state"]["facts"] |= {"model": engine.name, "tokens": tokens}
        return JsonReply(content, headers, partial(self._sent, size))

    def _sent(self, size: int) -> None:
        self.replies -= size


def _outcomes(calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """What each returns or raises; a panic of Rust, which is no `Exception`, as one."""
    outcomes: list[T | Exception] = []
    for call in calls:
        try:
            outcomes.append(call())
        except Exception as error:
            outcomes.append(error)
        except BaseException as error:
            outcomes.append(RuntimeError(type(error).__name__))
    return outcomes


class JsonReply(Response):
    """JSON that is ready; of a large reply the end comes when its reader has taken it."""

    media_type = "application/json"

    def __init__(self, content: bytes, headers: dict[str, str], sent: Callable[[], None]) -> None:
        super().__init__(content, 200, headers)
        self.sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        large = len(self.body) > BUFFER
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        try:
            await send(start)
            await send({"type": "http.response.body", "body": self.body, "more_body": large})
            if large:
                await send({"type": "http.response.body", "body": b""})
        finally:
            self.sent()


def one_batch(engine: Engine, tokens: int) -> QueuedItem:
    """A text in windows of so many tokens in all: a batch of its own."""
    length = min(32, engine.vector_tokens)
    windows = [[0] * length for _ in range(-(-tokens // length))]
    output = Vectors(engine, replace(engine.default, prompt=""))
    item = RequestItem(output, windows, None, [0] * len(windows))
    return QueuedItem(engine, item, item.tokens)


def freeze_loaded() -> None:
    """Leave what is loaded out of garbage collection: it stops every request for 0.1 s."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def return_memory() -> None:
    """Return free memory to the system: glibc would keep that of models that are gone."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


async def read_bytes(receive: Receive, config: ServeConfig) -> bytes:
    """The body of a request, within the server's bounds; else `HttpError`."""
    most, seconds, size = config.max_body_bytes, config.body_seconds, 0
    parts: list[bytes] = []

    def add(message: Message) -> bool:
        """Whether there is more to read."""
        nonlocal size
        if message["type"] == "http.disconnect":
            raise HttpError(499, "gone", "the client left")
        part = message.get("body", b"")
        size += len(part)
        if size <= most:
            parts.append(part)
        return message.get("more_body", False) and size <= most * DRAIN

    first = ready(receive)  # of most requests the whole: they need no timer
    if first is None or add(first):
        try:
            async with asyncio.timeout(seconds):
                while add(await receive()):
                    pass
        except TimeoutError as error:
            reason = f"the body took more than {seconds:g} seconds"
            raise HttpError(408, "too_slow", reason) from error
    if size > most:
        raise HttpError(413, "too_large", f"the body has more than {most} bytes")
    return b"".join(parts)


def ready(receive: Receive) -> Message | None:
    """What `receive` has at once; None where it would wait."""
    message = cast(Coroutine[Any, Any, Message], receive())
    try:
        message.send(None)
    except StopIteration as ended:
        return cast(Message, ended.value)
    message.close()
    return None


def is_gone(receive: Receive) -> bool:
    """Whether the client of a request whose body was read has left."""
    message = ready(receive)
    return message is not None and bool(message["type"] == "http.disconnect")


def seconds_of(scope: Scope, most: float) -> float:
    """Seconds that a request may take: at most those that its header X-Timeout says, which else is
    refused."""
    given = next((value for name, value in scope["headers"] if name == b"x-timeout"), None)
    if given is None:
        return most
    seconds = 0.0
    with suppress(ValueError):
        seconds = float(given)
    if not 0 < seconds < float("inf"):
        raise invalid_request("X-Timeout must be a number of seconds above 0")
    return min(seconds, most)


def _log_model(event: str, engine: Engine) -> None:
    for name, damage in engine.damages.items():
        skipped = {"model": engine.name, "used": engine.checkpoint, "skipped": name}
        log.warning("damaged checkpoint skipped", extra={"facts": {**skipped, "error": damage}})
    own = {"model": engine.name, "sha256": engine.sha256, "checkpoint": engine.checkpoint}
    more = {"backend": engine.backend.name, "heads": list(engine.model.heads)}
    log.info(event, extra={"facts": own | more})
