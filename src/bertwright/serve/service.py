"""What a server is made of: its models, the queue before the device, and what answers a request."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from starlette.types import Message, Receive, Scope

from bertwright.config.serve import ServeConfig
from bertwright.errors import BertwrightError
from bertwright.serve.aside import Aside
from bertwright.serve.auth import Keys
from bertwright.serve.batching import FOR_SHORT, Batcher, Item
from bertwright.serve.engine import Engine, Work, load_engine
from bertwright.serve.errors import Refusal, bad, busy, unavailable
from bertwright.serve.metrics import Metrics
from bertwright.serve.outputs import Vectors
from bertwright.serve.requests import Plan, Route, make_plan

DRAIN = 8
"""A body that is too large is read to the end, and thrown away, up to so many times the bound: a
caller that is cut off while it sends never sees the reason."""
SMALL = 1024
"""Bytes of a body that is planned with others that wait, in one turn of a thread."""
SHARE = 256
"""Tokens of a batch on one core, at least."""
LARGE = 20_000
"""Bytes from which a reply is made in a thread."""
REPLIES = 1 << 30
"""Bytes, about, of the large replies that are made or wait for their readers."""

log = logging.getLogger("bertwright.serve")


def run_batch(cores: int, lane: object, works: list[Any], at_once: int) -> list[Any]:
    """What a thread of the device's does with a batch."""
    assert isinstance(lane, Engine)
    torch.set_num_threads(cores // at_once)  # of this thread
    return lane.run(works)


def side_by_side(cores: int, batch_tokens: int) -> int:
    """Batches that a processor works on at once, each on one core: cores on one batch wait for each
    other, and for whoever is set aside for other work. Of many cores all work on one batch."""
    return cores if cores * SHARE <= batch_tokens else 1


class Service:
    """Models at work for many callers."""

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self.folders = config.models
        self.engines: dict[str, Engine] = {}
        self.metrics = Metrics()
        self.keys: Keys | None = None
        self.admin_keys: Keys | None = None
        self.read_keys()
        self.active = 0
        """Requests at work."""
        self.replies = 0
        """Bytes, about, of the replies at work."""
        self.draining = False
        self.failing = False
        self.error: Exception | None = None
        """Why no model could be loaded."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when the process should end."""
        self.batcher: Batcher | None = None
        self._cores = torch.get_num_threads()
        self._aside = Aside("plan")
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="tokenize")
        self._swapping = asyncio.Lock()
        self._loading: asyncio.Task[None] | None = None
        self._loads: set[Future[Engine]] = set()
        """Those that have not ended, whether or not somebody still waits for them."""

    @property
    def is_busy(self) -> bool:
        """Whether a thread loads a model or runs a batch, which may never end."""
        return bool(self._loads) or (self.batcher is not None and self.batcher.is_busy)

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered: models loaded, warm and checked, and no end in sight."""
        working = self.batcher is not None and self.batcher.is_working
        return bool(self.engines) and working and not (self.draining or self.failing)

    def read_keys(self) -> None:
        """Read the files of keys, also anew.

        Raises:
            ConfigError: one cannot be read; the keys stay as they were.
        """
        files = self.config.api_keys, self.config.admin_keys
        self.keys, self.admin_keys = [None if file is None else Keys(file) for file in files]

    async def start(self) -> None:
        """Begin; models load while /livez answers already."""
        self._loading = asyncio.get_running_loop().create_task(self._load())

    async def stop(self) -> None:
        """End, when no request is at work any more."""
        self.draining = True
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        if self.batcher is not None:
            self.batcher.stop()
        self._pool.shutdown(wait=True)
        self._aside.stop()

    async def _load(self) -> None:
        config = self.config
        try:
            engines = {}
            for name, folder in self.folders.items():
                engines[name] = await self._loaded(name, folder)
                log.info("model loaded", extra={"facts": _facts(engines[name])})
        except Exception as error:
            self.error = error
            self.on_end()
            return
        batch_tokens, at_once = self._batches(next(iter(engines.values())))
        batcher = Batcher(
            partial(run_batch, self._cores),
            batch_tokens,
            config.queue_tokens,
            config.queue_requests,
            config.failures,
            config.batch_timeout,
            self._fail,
            at_once=at_once,
        )
        batcher.start()
        self.batcher = batcher
        try:
            await self._rehearse(batcher, engines)
        except Refusal as refusal:
            self.error = BertwrightError(
                f"a batch could not be computed ({refusal.code}); the log says why; --batch-tokens "
                f"below {batch_tokens:,} makes batches smaller"
            )
            self.on_end()
            return
        self.metrics.follow(batcher)
        self.engines = engines
        set_apart()
        log.info("ready", extra={"facts": {"models": list(engines)}})

    async def _rehearse(self, batcher: Batcher, engines: dict[str, Engine]) -> None:
        """Have each thread of a processor compute a batch beyond the bound of those to come:
        it gives its memory a size that would else grow for hours, a little with every batch of an
        odd kind.

        Raises:
            Refusal: it cannot be computed.
        """
        each = 2 * batcher.batch_tokens // batcher.at_once
        for engine in engines.values():
            if engine.runner.device.type == "cpu":
                items = [one_batch(engine, each) for _ in range(batcher.at_once)]
                await batcher.ask(items, self.config.load_timeout)

    async def _loaded(self, name: str, folder: str) -> Engine:
        """A model, loaded in a thread that ends: a thread that has run products keeps a team of
        OpenMP's, and with two teams on the cores none waits awake (1.5 times the latency).

        Raises:
            BertwrightError: it cannot be loaded, or not in time; the thread then goes on.
        """
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
            raise BertwrightError(
                f"loading {folder} {took}; allow more with --load-timeout"
            ) from error

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
        """Tokens of a batch, and how many batches are worked on at once."""
        on_cpu = engine.runner.device.type == "cpu"
        tokens = self.config.batch_tokens or (1024 if on_cpu else 32768)
        return tokens, side_by_side(self._cores, tokens) if on_cpu else 1

    def _fail(self) -> None:
        """The device is at fault: say so and end."""
        self.failing = True
        log.error("failing")
        self.on_end()

    async def swap(self, name: str | None, folder: str | None = None) -> list[Engine]:
        """Load models anew and put them in the places of the old, which answer until then.

        What was asked of an old one is still answered by it. One that cannot be loaded does not
        keep others from it.

        Raises:
            Refusal: no such model; or some cannot be loaded, and their old ones stay.
        """
        async with self._swapping:
            if name is not None and name not in self.folders:
                raise Refusal(404, "model_not_found", "no such model")
            names = [name] if name is not None else list(self.folders)
            made, failed = [], []
            for each in names:
                place = folder or self.folders[each]
                try:
                    engine = await self._loaded(each, place)
                except Exception as error:
                    why = why_not_loaded(error)
                    log.error("not swapped", extra={"facts": {"model": each, "error": why}})
                    failed.append(f"{each}: the old model stays: {why}")
                    continue
                self.engines[each], self.folders[each] = engine, place
                self.metrics.swaps.inc()
                log.info("model swapped", extra={"facts": _facts(engine)})
                made.append(engine)
            set_apart()
            await asyncio.to_thread(give_back)
            if failed:
                done = [f"swapped: {', '.join(engine.name for engine in made)}"] if made else []
                raise Refusal(409, "not_swapped", "; ".join([*done, *failed]))
            return made

    @asynccontextmanager
    async def answer(
        self, route: Route, scope: Scope, receive: Receive
    ) -> AsyncIterator[tuple[bytes, dict[str, str], dict[str, Any]]]:
        """The body, headers and, for the log, facts of a reply, which counts until it is sent.

        Raises:
            Refusal: it gets no answer.
        """
        config, loop = self.config, asyncio.get_running_loop()
        body = await read_body(receive, config.max_body_bytes, config.body_seconds)
        until = time.monotonic() + _deadline(scope, config.deadline)
        if self.batcher is None or not self.engines:
            raise unavailable("models are being loaded", "loading")
        if len(body) <= SMALL:
            plan = await self._aside.run(self._prepare, route, body)
        else:
            plan = await loop.run_in_executor(self._pool, self._prepare, route, body)
        if plan.size > REPLIES // config.queue_requests and self.replies + plan.size > REPLIES:
            raise busy("too many large answers wait for their readers; try again")
        self.replies += plan.size
        try:
            items = [Item(plan.engine, work, work.tokens) for work in plan.works]
            left = until - time.monotonic()
            answers = await self.batcher.ask(items, left, lambda: is_gone(receive))
            if len(body) > LARGE or plan.tokens > LARGE // 100:
                content, headers = await loop.run_in_executor(self._pool, plan.reply, answers)
            else:
                content, headers = plan.reply(answers)
            self.metrics.read(plan.engine.name, plan.tokens, len(plan.truncated))
            yield content, headers, {"model": plan.engine.name, "tokens": plan.tokens}
        finally:
            self.replies -= plan.size

    def _prepare(self, route: Route, body: bytes) -> Plan:
        return make_plan(route, self.engines, route.shape.read(body), self.config)


def one_batch(engine: Engine, tokens: int) -> Item:
    """A text in windows of so many tokens in all: a batch of its own."""
    length = min(32, engine.vector_tokens)
    windows = [[engine.tokenizer.cls_id] * length for _ in range(-(-tokens // length))]
    reader = Vectors(engine, replace(engine.default, prompt=""))
    work = Work(reader, windows, None, [0] * len(windows))
    return Item(engine, work, work.tokens)


def why_not_loaded(error: Exception) -> str:
    """Our own reasons are told, and the system's; of others the type."""
    if isinstance(error, BertwrightError):
        return str(error)
    told = error.strerror if isinstance(error, OSError) else None
    return told or type(error).__name__


def set_apart() -> None:
    """Leave what is loaded out of the search for cycles: it stops every request for 0.1 s."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Give memory that is free to the system: glibc would keep that of models that are gone."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


async def read_body(receive: Receive, most: int, seconds: float) -> bytes:
    """The body of a request.

    Raises:
        Refusal: 413, too large; 408, too slow; 499, the caller left.
    """
    size, parts, more = 0, [], True
    try:
        async with asyncio.timeout(seconds):
            while more and size <= most * DRAIN:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(499, "gone", "the caller left")
                part, more = message.get("body", b""), message.get("more_body", False)
                size += len(part)
                if size <= most:
                    parts.append(part)
    except TimeoutError as error:
        raise Refusal(408, "too_slow", f"the body took more than {seconds:g} seconds") from error
    if size > most:
        raise Refusal(413, "too_large", f"the body has more than {most} bytes")
    return b"".join(parts)


def is_gone(receive: Receive) -> bool:
    """Whether the caller of a request whose body was read has left: if so, `receive` returns at
    once, else it would wait, and is asked no further."""
    asked = cast(Coroutine[Any, Any, Message], receive())
    try:
        asked.send(None)
    except StopIteration as ended:
        return bool(ended.value["type"] == "http.disconnect")
    asked.close()
    return False


def _deadline(scope: Scope, most: float) -> float:
    given = next((value for name, value in scope["headers"] if name == b"x-timeout"), None)
    if given is None:
        return most
    try:
        asked = float(given)
    except ValueError as error:
        raise bad("X-Timeout must be a number of seconds") from error
    if not 0 < asked < float("inf"):
        raise bad("X-Timeout must be a number of seconds above 0")
    return min(asked, most)


def _facts(engine: Engine) -> dict[str, Any]:
    return {
        "model": engine.name,
        "sha256": engine.sha256,
        "backend": engine.backend.name,
        "heads": list(engine.model.heads),
    }
