"""Loading models to serve: in threads of their own, warmed up for the device, and checked."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from bertwright.checkpoint.find import look_up_place
from bertwright.checkpoint.opened import Opened
from bertwright.config.serve import ServeConfig
from bertwright.config.vectors import VectorConfig, VectorPrecision
from bertwright.errors import BertwrightError
from bertwright.inference.backends.exported import ExportedEncoder
from bertwright.inference.backends.packed import PackedBackend
from bertwright.inference.backends.plain import PlainBackend
from bertwright.inference.model import load
from bertwright.serve.engine.batching import FOR_SHORT, Batcher, Computes, QueuedItem
from bertwright.serve.engine.engine import WHOLE, Engine, RequestItem
from bertwright.serve.engine.folder import readable, stamps
from bertwright.serve.engine.outputs import Vectors
from bertwright.serve.errors import HttpError

MIN_TOKENS = 256
"""The fewest tokens of a batch on one core."""

log = logging.getLogger("bertwright.serve")


def load_engine(
    name: str,
    folder: str,
    device: str | None = None,
    precision: VectorPrecision = "fp32",
    exported: str | None = None,
) -> Engine:
    """Load a model, check its vectors, and return it.

    Raises:
        BertwrightError: it cannot be read, or its numbers are wrong.
    """
    with readable(folder):
        opened = Opened(look_up_place(folder))  # `latest` may be another checkpoint later
        before = stamps(opened)
        model = load(opened, device, exported=exported)
        engine = Engine(name, folder, model)
        engine.damages = dict(opened.place.damages)
        # compared up to the top, as every layer is served
        own = engine.default
        compared = VectorConfig((*own.layers, -1), pooling=own.pooling, max_length=own.max_length)
        if isinstance(model.runner.encoder, ExportedEncoder):
            engine.precision = "int8" if model.runner.encoder.exported.int8 else "fp32"
        elif model.spec.has_vectors:
            chosen = model.embedder(compared, precision=precision).backend
            if isinstance(chosen, (PackedBackend, PlainBackend)):
                chosen.batch_tokens = WHOLE
            engine.backend = chosen
            engine.precision = "fp32" if chosen.name.endswith("fp32") else precision
        if stamps(opened) != before:
            changed = f"{folder} was changed while it was loaded"
            raise BertwrightError(f"{changed}; load it once it is whole")
        if model.spec.has_vectors:
            engine.self_check()
        return engine


class ModelLoader:
    """Loads models for one device, and makes the queue before it."""

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self._cores = torch.get_num_threads()
        self._loads: set[Future[Engine]] = set()
        """The loads that have not ended, whether or not they are still awaited."""

    @property
    def is_busy(self) -> bool:
        """Whether a model is being loaded, which may never end."""
        return bool(self._loads)

    async def load(self, name: str, folder: str) -> Engine:
        """Return a loaded model.

        It is loaded in a thread that ends: a thread that has computed products keeps a team of
        OpenMP's threads, and with two teams on the cores no team waits by spinning, which makes the
        latency 1.5 times as long. If the model is not loaded in time, the thread goes on.

        Raises:
            BertwrightError: it cannot be served, or takes longer than `--load-timeout`.
        """
        once = ThreadPoolExecutor(1, thread_name_prefix="load")
        loads = once.submit(self._load_in_thread, name, folder)
        once.shutdown(wait=False)
        self._loads.add(loads)
        loads.add_done_callback(self._loads.discard)
        try:
            async with asyncio.timeout(self.config.load_timeout):
                return await asyncio.wrap_future(loads)
        except TimeoutError as error:
            if loads.done():  # raised by the load itself
                raise
            took = f"took more than {self.config.load_timeout:g} seconds"
            more = "allow more with --load-timeout"
            raise BertwrightError(f"loading {folder} {took}; {more}") from error

    def _load_in_thread(self, name: str, folder: str) -> Engine:
        torch.set_num_threads(self._cores)  # a new thread has the number last set in another
        exported = self.config.exports.get(name)
        engine = load_engine(name, folder, self.config.device, self.config.precision, exported)
        tokens, at_once = self._batches(engine)
        for parts in sorted({1, at_once}, reverse=True):
            torch.set_num_threads(self._cores // parts)
            share = tokens // parts
            engine.warm_up(share if parts == 1 else share + share // FOR_SHORT)
        return engine

    def _batches(self, engine: Engine) -> tuple[int, int]:
        """Return the tokens of a batch, and how many batches are computed at once."""
        on_cpu = engine.runner.device.type == "cpu"
        tokens = self.config.batch_tokens or (1024 if on_cpu else 32768)
        return tokens, side_by_side(self._cores, tokens) if on_cpu else 1

    def make_batcher(self, engine: Engine) -> Batcher:
        """Return the queue before the device of a model."""
        config, (tokens, at_once) = self.config, self._batches(engine)
        return Batcher(
            partial(run_batch, self._cores),
            tokens,
            config.queue_tokens,
            config.queue_requests,
            config.batch_timeout,
            at_once=at_once,
        )

    async def rehearse(self, batcher: Batcher, engines: Iterable[Engine]) -> None:
        """Have each thread of a processor compute a batch larger than those to come.

        This grows the allocator's arenas to their final size at start-up.
        """
        each = 2 * batcher.batch_tokens // batcher.at_once
        for engine in engines:
            if engine.runner.device.type == "cpu" and engine.spec.has_vectors:
                items = [one_batch(engine, each) for _ in range(batcher.at_once)]
                try:
                    await batcher.run(items, self.config.load_timeout)
                except HttpError as error:
                    raise BertwrightError(
                        f"a batch could not be computed ({error.code}), as the log says; "
                        f"--batch-tokens below {batcher.batch_tokens:,} makes batches smaller"
                    ) from error


def run_batch(cores: int, model: Computes, items: list[Any], at_once: int) -> Sequence[Any]:
    """Compute a batch in a thread of the device, on its part of the cores."""
    torch.set_num_threads(cores // at_once)  # applies to this thread
    return model.run(items)


def side_by_side(cores: int, batch_tokens: int) -> int:
    """Return how many batches a processor computes at once.

    On few cores each core computes a batch of its own: cores that share one wait for each other,
    and for the one that the system gave to other work. Many cores all compute one batch.
    """
    return cores if cores * MIN_TOKENS <= batch_tokens else 1


def one_batch(engine: Engine, tokens: int) -> QueuedItem:
    """Return one text whose windows have so many tokens in all, which is a batch of its own."""
    length = min(32, engine.vector_tokens)
    windows = [[0] * length for _ in range(-(-tokens // length))]
    config = replace(engine.default, prompt="")
    if engine.lacks(config.numbers(engine.top)):
        config = VectorConfig((engine.top,))
    output = Vectors(engine, config)
    item = RequestItem(output, windows, None, [0] * len(windows))
    return QueuedItem(engine, item, item.tokens)


def freeze_loaded() -> None:
    """Exclude loaded models from garbage collection, which would stop all requests for 0.1 s."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def return_memory() -> None:
    """Return free memory to the system, as glibc would keep the memory of replaced models."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def log_model(event: str, engine: Engine) -> None:
    """Log that a model was loaded, and which damaged checkpoints were skipped."""
    for name, damage in engine.damages.items():
        skipped = {"model": engine.name, "used": engine.checkpoint, "skipped": name}
        log.warning("damaged checkpoint skipped", extra={"facts": {**skipped, "error": damage}})
    facts = {
        "model": engine.name,
        "sha256": engine.sha256,
        "checkpoint": engine.checkpoint,
        "backend": engine.backend.name,
        "heads": list(engine.model.heads),
    }
    log.info(event, extra={"facts": facts})
