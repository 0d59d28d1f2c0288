"""`bertwright serve`: serve models over HTTP."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

from bertwright.cli.options import EVERY_KEY, ConfigFile
from bertwright.config.serve import ServeConfig
from bertwright.console import say
from bertwright.errors import MissingExtra
from bertwright.process_settings import sleep_when_idle

PACKAGES = (
    "fastapi",
    "fastapi_offline",
    "uvicorn",
    "httptools",
    "orjson",
    "prometheus_client",
)
"""The packages of the extra `serve` that are imported."""


def serve(
    *,
    config: Annotated[ServeConfig, EVERY_KEY] = ServeConfig(),
    config_file: ConfigFile = None,
) -> int:
    """Serve models over HTTP: vectors, and every task head.

    Each option may also come from the environment, as BERTWRIGHT_PORT=8081, which overrides
    --config. SIGTERM finishes the running requests and ends; SIGHUP reloads the models.
    """
    # SIGHUP would kill the process until the server handles it
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sleep_when_idle()
    config.exports  # noqa: B018  (names and folders are checked before anything heavy is imported)
    for package in PACKAGES:
        try:
            __import__(package)
        except ImportError as error:
            raise MissingExtra("serve", package.replace("_", "-"), "bertwright serve") from error
    from bertwright.serve.process import serve as run

    # lines for people, on a terminal only: a log that a program reads contains nothing but JSON
    return run(config, say if sys.stderr.isatty() else lambda line: None)
