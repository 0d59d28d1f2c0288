"""A server as a process: address, signals, slow clients, logs, and how it ends.

| signal | what happens |
|---|---|
| SIGTERM, SIGINT | /readyz says no; requests at work are answered; the end, with code 0 |
| SIGHUP | models are loaded anew from their folders and take their places; no request fails |
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import orjson
import uvicorn

from bertwright.config.serve import ServeConfig
from bertwright.errors import BertwrightError
from bertwright.serve.server import make_app
from bertwright.serve.service import Service

KEEP_ALIVE = 5
"""Seconds that a connection may stay without a request."""

log = logging.getLogger("bertwright.serve")


def serve(config: ServeConfig) -> int:
    """Serve until a signal; gives the exit code.

    Raises:
        ConfigError: keys, models or address that cannot be used.
        BertwrightError: a model cannot be loaded.
    """
    log_json()
    service = Service(config)
    app = make_app(config, service)
    made = uvicorn.Config(
        app,
        host=config.host,
        port=config.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(config.drain_seconds)),
        ws="none",
        http=impatient(config.header_seconds),
    )
    server = Server(made, service)
    server.run()
    if service.error is not None:
        raise service.error
    if service.is_stuck:
        logging.shutdown()
        os._exit(1)  # the end of the interpreter would wait for the device's thread
    return 1 if service.failing or not server.started else 0


class Server(uvicorn.Server):
    """uvicorn with our signals."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service
        self._drains: asyncio.Task[None] | None = None
        service.on_end = self._end

    def _end(self) -> None:
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ours in the place of uvicorn's, which would end by the signal itself."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._drain)
        loop.add_signal_handler(signal.SIGHUP, self._swap)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def _drain(self) -> None:
        if self.service.draining:
            self.force_exit = True
            return
        self.service.draining = True
        log.info("draining", extra={"facts": {"active": self.service.active}})
        self._drains = asyncio.get_running_loop().create_task(self._go_down())

    async def _go_down(self) -> None:
        await asyncio.sleep(self.service.config.drain_delay)
        self.should_exit = True

    def _swap(self) -> None:
        self._swaps = asyncio.get_running_loop().create_task(self._swap_all())

    async def _swap_all(self) -> None:
        try:
            await self.service.swap(None)
        except BertwrightError as error:
            log.error("not swapped", extra={"facts": {"error": str(error)}})

    def _log_started_message(self, listeners: Any) -> None:
        address = [":".join(map(str, each.getsockname()[:2])) for each in listeners]
        log.info("listening", extra={"facts": {"address": address[0]}})


def impatient(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol, closing connections whose headers do not come in time.

    uvicorn waits for ever for the first byte of a connection, and between bytes of headers.
    """
    base: Any
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as base
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as base

    class Impatient(base):  # type: ignore[misc]
        """The headers of each request have so many seconds."""

        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.timer = self.loop.call_later(seconds, self.too_slow)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            if self.timer is None and not self.is_at_work:
                self.timer = self.loop.call_later(seconds, self.too_slow)
            super().data_received(data)
            if self.timer is not None and self.cycle is not before:
                self.timer.cancel()
                self.timer = None

        def connection_lost(self, error: Exception | None) -> None:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None
            super().connection_lost(error)

        @property
        def is_at_work(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def too_slow(self) -> None:
            self.timer = None
            if not self.is_at_work and self.transport is not None:
                self.transport.close()

    return Impatient


class JsonLines(logging.Formatter):
    """One JSON object a record; never a text of a caller."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging`."""
        facts = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            facts["error"] = record.exc_info[0].__name__
        return orjson.dumps(facts, default=str).decode()


def log_json() -> None:
    """Send the logs of the server to standard error, a JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, level in (("bertwright.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
