"""How models are served: where, with which bounds, and for whom."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal

from bertwright.config.ranges import OutOfRange, at_least
from bertwright.errors import ConfigError

_DEVICE = r"cpu|mps|cuda(:\d+)?"


@dataclass(frozen=True)
class ServeConfig:
    """A server: its models, its address and its bounds."""

    model: tuple[str, ...] = ()
    """Folders of models, or NAME=FOLDER; the first is the one meant where a request names none."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for all of this machine's."""
    port: int = 8080
    """Port to listen on; 0 takes a free one and the log tells which."""
    device: str | None = None
    """Where models work; unset: the GPU if there is one."""
    precision: Literal["auto", "fp32", "bf16", "int8"] = "fp32"
    """fp32 is exact; the others are held against it when a model is loaded."""
    batch_tokens: int | None = None
    """Tokens of a batch, about; unset: 1,024 on a CPU, 32,768 on a GPU."""
    queue_tokens: int = 262144
    """Tokens that may wait; a request beyond is refused with 429."""
    queue_requests: int = 512
    """Requests that may be at work or wait; one beyond is refused with 429."""
    deadline: float = 30.0
    """Seconds a request may wait for its batch; a client may ask for less in X-Timeout."""
    max_body_bytes: int = 8388608
    """Bytes of a request's body."""
    max_characters: int = 1048576
    """Characters of all texts of a request."""
    max_items: int = 2048
    """Texts of a request."""
    max_tokens: int = 131072
    """Tokens of a request."""
    header_seconds: float = 10.0
    """Seconds in which a client must have sent its headers."""
    body_seconds: float = 10.0
    """Seconds in which a client must have sent its body."""
    keep_alive: int = 5
    """Seconds that a connection may stay without a request; where a proxy keeps connections, more
    than it keeps them, else it may ask on one that is just being closed."""
    reply_seconds: float = 30.0
    """Seconds in which a client must have taken some more of its reply."""
    drain_seconds: float = 30.0
    """Seconds that requests at work have after SIGTERM."""
    drain_delay: float = 0.0
    """Seconds after SIGTERM in which new requests are still taken, while /readyz says no, so that a
    load balancer can look away first."""
    failures: int = 5
    """Failed batches in a row after which the process ends with code 1."""
    batch_timeout: float = 120.0
    """Seconds after which a batch is taken to hang, and the process ends with code 1."""
    load_timeout: float = 600.0
    """Seconds after which loading a model is taken to hang: a swap of it fails; at the start the
    process ends with code 1."""
    api_keys: str | None = None
    """File of keys, one a line; a request then needs one in `Authorization: Bearer KEY`."""
    admin_keys: str | None = None
    """File of keys for POST /admin/swap; unset: there is no such route."""
    log_requests: bool = True
    """Write a line for every request; never its texts."""
    playground: bool = True
    """Serve the page for trying things out at /."""

    def __post_init__(self) -> None:
        at_least(self, 1, "batch_tokens", "queue_tokens", "queue_requests", "max_body_bytes")
        at_least(self, 1, "max_characters", "max_items", "max_tokens", "failures", "keep_alive")
        at_least(self, 0.01, "header_seconds", "body_seconds", "reply_seconds")
        at_least(self, 0.01, "deadline", "batch_timeout", "load_timeout")
        at_least(self, 0, "drain_seconds", "drain_delay")
        if not 0 <= self.port < 65536:
            raise OutOfRange(self, "port", "0 to 65535")
        if not self.host.strip():  # the system takes it for all addresses
            raise ConfigError("host is empty; expected an address, as 127.0.0.1 or 0.0.0.0")
        if self.device is not None and not re.fullmatch(_DEVICE, self.device):
            raise ConfigError(f"device is {self.device!r}; expected cpu, mps, cuda or cuda:NUMBER")

    @property
    def models(self) -> dict[str, str]:
        """Name -> folder; a folder without a name, with "=" in it too, goes by its own last part.

        Raises:
            ConfigError: no model, or two of one name.
        """
        found: dict[str, str] = {}
        for each in self.model:
            name, equals, folder = each.partition("=")
            if not equals or os.path.isdir(each):
                name, folder = os.path.basename(os.path.abspath(each)), each
            if not name or not folder:
                raise ConfigError(f"model is {each!r}; expected FOLDER or NAME=FOLDER")
            if name in found:
                raise ConfigError(f"two models are called {name}; name them: --model NAME=FOLDER")
            found[name] = folder
        if not found:
            raise ConfigError("there is no model to serve; name one with --model FOLDER")
        return found
