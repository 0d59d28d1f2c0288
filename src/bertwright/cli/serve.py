"""`bertwright serve`: models behind HTTP."""

from __future__ import annotations

import signal
from typing import Annotated

from bertwright.cli.options import EVERY_KEY, ConfigFile
from bertwright.config.serve import ServeConfig
from bertwright.errors import MissingExtra
from bertwright.machine import sleep_when_idle


def serve(
    *,
    config: Annotated[ServeConfig, EVERY_KEY] = ServeConfig(),
    config_file: ConfigFile = None,
) -> int:
    """Serve models over HTTP: vectors, and every head they have.

    Each key may also come from the environment, as BERTWRIGHT_PORT=8081: below the command line,
    above --config. SIGTERM answers what is at work and ends; SIGHUP loads the models anew.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it would kill until the server listens to it
    sleep_when_idle()
    config.models  # noqa: B018  (names and folders are judged before anything heavy is imported)
    for package in ("fastapi", "uvicorn", "httptools", "orjson", "prometheus_client"):
        try:
            __import__(package)
        except ImportError as error:
            raise MissingExtra("serve", package.replace("_", "-"), "bertwright serve") from error
    from bertwright.serve.process import serve as run

    return run(config)
