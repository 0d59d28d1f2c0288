"""The state of a server: its models, the queue before its device, and whether it is ready."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from bertwright.config.serve import ServeConfig
from bertwright.serve.auth import ApiKeys
from bertwright.serve.engine.batching import Batcher
from bertwright.serve.engine.engine import Engine
from bertwright.serve.engine.loading import ModelLoader, freeze_loaded, log_model, return_memory
from bertwright.serve.errors import HttpError, busy, unavailable
from bertwright.serve.metrics import ServerMetrics
from bertwright.serve.threads import Threads

P = ParamSpec("P")
T = TypeVar("T")
MOST_APART = 16
"""The most requests at once for tokenizers whose texts have a time limit of their own."""

log = logging.getLogger("bertwright.serve")


class Service:
    """Models that are served to many clients."""

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self.folders = config.models
        self.engines: dict[str, Engine] = {}
        self.metrics = ServerMetrics()
        self.keys: ApiKeys | None = None
        self.read_keys()
        self.active = 0
        """The number of requests that have no whole reply yet."""
        self.reply_bytes = 0
        """The approximate bytes of their replies."""
        self.draining = False
        self.failing = False
        self.error: Exception | None = None
        """Why the first models could not be loaded."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when the process should end."""
        self.batcher: Batcher | None = None
        self.threads = Threads(config.batch_timeout, self._fail)
        self._apart = Threads(config.batch_timeout, self._interrupt_slow)
        self.apart_calls = 0
        """The number of calls that tokenize apart, or wait for it."""
        self.loader = ModelLoader(config)
        self._swapping = asyncio.Lock()
        self._loading: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a thread loads a model, tokenizes or computes a batch, and may never end."""
        computes = self.batcher is not None and self.batcher.is_busy
        return self.loader.is_busy or self.threads.is_stuck or computes

    @property
    def is_ready(self) -> bool:
        """Whether requests are served: models are loaded and checked, and no end has begun."""
        working = self.batcher is not None and self.batcher.is_working
        return bool(self.engines) and working and not (self.draining or self.failing)

    @property
    def device(self) -> Batcher:
        """The queue before the device, or `HttpError` while models are being loaded."""
        if self.batcher is None:
            raise unavailable("models are being loaded", "loading")
        return self.batcher

    def read_keys(self) -> None:
        """Read the file of keys; `ConfigError` if it cannot be read, and the old keys stay."""
        if self.config.api_keys is not None:
            self.keys = ApiKeys(self.config.api_keys)

    def check_loaded(self) -> None:
        """Raise `HttpError` while the first models are being loaded."""
        if not self.engines:
            raise unavailable("models are being loaded", "loading")

    def engine(self, name: str | None) -> Engine:
        """Return the model of a name, or the first; `HttpError` if there is none."""
        self.check_loaded()
        if name is None:
            return next(iter(self.engines.values()))
        if name not in self.engines:
            known = ", ".join(self.engines)
            raise HttpError(404, "model_not_found", f"no such model; there are: {known}")
        return self.engines[name]

    async def start(self) -> None:
        """Begin to load the models, while /livez already replies."""
        self._loading = asyncio.get_running_loop().create_task(self._load())

    async def stop(self) -> None:
        """End, when no request is active any more."""
        self.draining = True
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        if self.batcher is not None:
            self.batcher.stop()
        self.threads.stop()
        self._interrupt_slow(for_good=True)
        self._apart.stop()

    async def run_apart(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `call` returns, run in threads that requests for other models do not need.
        It is for tokenizers that may need seconds for a text.

        Raises:
            HttpError: too many such calls wait.
        """
        if self.apart_calls >= MOST_APART:
            raise busy("too many texts wait for a slow tokenizer; try again")
        self.apart_calls += 1
        try:
            return await self._apart.run(call, *args, **kwargs)
        finally:
            self.apart_calls -= 1

    async def _load(self) -> None:
        """Load the first models; if one cannot be loaded, the server ends."""
        engines: dict[str, Engine] = {}
        try:
            for name, folder in self.folders.items():
                engines[name] = await self.loader.load(name, folder)
                log_model("model loaded", engines[name])
            batcher = self.loader.make_batcher(next(iter(engines.values())))
            batcher.on_failing, self.batcher = self._fail, batcher
            await self.loader.rehearse(batcher, engines.values())
        except Exception as error:
            self.error = error
            self.on_end()
            return
        self.metrics.follow(batcher)
        self.engines = engines
        freeze_loaded()
        log.info("ready", extra={"facts": {"models": list(engines)}})

    async def swap(self) -> None:
        """Load all models again and replace the old ones.

        The old ones serve until then, and compute the requests that they have. Where a model cannot
        be loaded the old one stays, as the log says, and the others are replaced.
        """
        async with self._swapping:
            for name, folder in self.folders.items():
                try:
                    self.engines[name] = await self.loader.load(name, folder)
                except Exception as error:
                    facts = {"model": name, "error": f"the old model stays: {error!r}"}
                    log.error("not swapped", extra={"facts": facts})
                else:
                    self.metrics.swaps.inc()
                    log_model("model swapped", self.engines[name])
            freeze_loaded()
            await asyncio.to_thread(return_memory)

    def _interrupt_slow(self, for_good: bool = False) -> None:
        """End the texts that are tokenized apart; their requests get an error."""
        for engine in self.engines.values():
            engine.tokenizer.interrupt(for_good)

    def _fail(self) -> None:
        """Refuse requests and end, as the device or a thread does not respond."""
        self.failing = True
        log.error("failing")
        self.on_end()


def service_of(request: Request) -> Service:
    """Return the service of the application that got a request."""
    service: Service = request.app.state.service
    return service
