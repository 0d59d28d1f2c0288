"""The process of a server: its address, signals, logs and exit code (docs/howto/serving.md)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import uvicorn

from bertwright.config.serve import ServeConfig
from bertwright.errors import ConfigError
from bertwright.serve.app import make_app
from bertwright.serve.engine.folder import check_folder
from bertwright.serve.http.connection import bounded
from bertwright.serve.service import Service

Announce = Callable[[str], None]

log = logging.getLogger("bertwright.serve")


def serve(config: ServeConfig, announce: Announce = lambda line: None) -> int:
    """Serve until a signal, and return the exit code. `announce` is called with a line for the user
    once the address is known.

    Raises:
        ConfigError: keys, models or address that cannot be used.
        BertwrightError: a model cannot be loaded.
    """
    log_json()
    app = make_app(config)
    service = app.service
    for folder in service.folders.values():
        check_folder(folder)
    made = uvicorn.Config(
        app,
        host=config.host,
        port=config.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=config.keep_alive,
        timeout_graceful_shutdown=max(1, round(config.drain_seconds)),
        ws="none",
        http=bounded(config, app),
    )
    server = Server(made, service, announce)
    server.run()
    code = 1 if service.failing or service.error is not None or not server.started else 0
    if service.is_busy:  # the end of the interpreter would wait for that thread, maybe for ever
        if service.error is not None:
            log.error("not loaded", extra={"facts": {"error": str(service.error)}})
        logging.shutdown()
        os._exit(code)
    if service.error is not None:
        raise service.error
    return code


class Server(uvicorn.Server):
    """uvicorn's server with signal handlers that drain the requests and swap the models."""

    def __init__(
        self, config: uvicorn.Config, service: Service, announce: Announce = lambda line: None
    ) -> None:
        super().__init__(config)
        self.service, self.announce = service, announce
        service.on_end = self._end

    def _end(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: Any = None) -> None:
        """Listen, or raise `ConfigError`, before the models are loaded."""
        host, port = self.config.host, self.config.port
        try:
            found = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
        except OSError as error:
            number = error.errno or 0  # negative if the host's name could not be looked up
            why = os.strerror(number) if number > 0 else error.strerror or error
            more = "name an address of this host with --host and a free port with --port"
            where = _address(host, port)
            raise ConfigError(f"cannot listen on {where}: {why}; {more}") from error
        sockets = [socket.fromfd(each.fileno(), each.family, each.type) for each in found.sockets]
        found.close()
        await super().startup(sockets)
        self._log_started_message(sockets)
        host, port = sockets[0].getsockname()[:2]
        # a browser on this host reaches the server at 127.0.0.1, not at 0.0.0.0
        url = f"http://{_address('127.0.0.1' if host in ('0.0.0.0', '::') else host, port)}"
        self.announce(f"{url}/ to try it out, {url}/docs for the routes; models are being loaded")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals by our own handlers; with uvicorn's the signal would kill the process."""
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
        self.should_exit = True

    def _swap(self) -> None:
        self._swaps = asyncio.get_running_loop().create_task(self._swap_all())

    async def _swap_all(self) -> None:
        try:
            self.service.read_keys()
        except ConfigError as error:
            log.error("the old keys stay", extra={"facts": {"error": str(error)}})
        while not self.service.engines:  # the models of the start are still being loaded
            await asyncio.sleep(0.1)
        await self.service.swap()

    def _log_started_message(self, listeners: Any) -> None:
        addresses = [_address(*each.getsockname()[:2]) for each in listeners]
        log.info("listening", extra={"facts": {"address": ", ".join(addresses)}})


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class JsonLines(logging.Formatter):
    """Formats each record as a JSON object, which never has text of a request."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON."""
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        facts = {
            "time": f"{second}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            # asyncio writes values on further lines
            "event": record.getMessage().partition("\n")[0],
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            facts["error"] = record.exc_info[0].__name__
        return orjson.dumps(facts, default=str).decode()


def log_json() -> None:
    """Write the logs of the server, and warnings, to standard error as lines of JSON."""
    logging.captureWarnings(True)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("bertwright.serve", "uvicorn", "asyncio", "py.warnings"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "bertwright.serve" else logging.WARNING)
