"""The configuration of a server: models, address, limits and keys."""

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
    """The configuration of a server: its models, its address and its limits."""

    model: tuple[str, ...] = ()
    """Models to serve: folders, hf:ORG/NAME, or NAME=FOLDER to name one; requests use the first by
    default.
    """
    exported: tuple[str, ...] = ()
    """Folder that bertwright export --task encoder wrote, whose graph computes the layers of the
    model; with several models, NAME=FOLDER for the model of that name.
    """
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for all network interfaces."""
    port: int = 8080
    """Port to listen on; 0: any free one, which is logged."""
    device: str | None = None
    """Device of the models: cpu, mps, cuda or cuda:NUMBER; unset: the GPU if there is one."""
    precision: Literal["fp32", "bf16", "int8"] = "fp32"
    """Precision of the computation: fp32 is exact; the others are compared with it when a model is
    loaded. On a CPU, bf16 is fastest with AMX, and int8 with AVX-512 VNNI and no AMX.
    """
    batch_tokens: int | None = None
    """Approximate tokens per batch; unset: 1,024 on a CPU, 32,768 on a GPU."""
    queue_tokens: int = 262144
    """Maximum tokens in the queue; further requests get HTTP 429."""
    queue_requests: int = 512
    """Maximum number of running and waiting requests; further ones get HTTP 429."""
    deadline: float = 30.0
    """Seconds that a request may wait for its batch; the X-Timeout header can lower it."""
    max_body_bytes: int = 8388608
    """Maximum bytes of a request's body."""
    max_characters: int = 1048576
    """Maximum characters of all texts of a request."""
    max_items: int = 2048
    """Maximum number of texts per request."""
    max_tokens: int = 131072
    """Maximum tokens of all texts of a request."""
    max_new_tokens: int = 8192
    """Maximum tokens to generate for a request, over all its texts."""
    header_seconds: float = 10.0
    """Seconds within which a client must send its headers."""
    body_seconds: float = 10.0
    """Seconds within which a client must send its body."""
    keep_alive: int = 5
    """Seconds that an idle connection stays open. Behind a proxy, set it longer than the proxy's
    own limit; otherwise the proxy may send a request on a connection that is being closed.
    """
    reply_seconds: float = 30.0
    """Seconds within which a client must read the next part of its reply."""
    drain_seconds: float = 30.0
    """Seconds that running requests may take to finish after SIGTERM."""
    batch_timeout: float = 120.0
    """Seconds after which a batch is considered hung, and the process ends with code 1."""
    load_timeout: float = 600.0
    """Seconds after which loading a model is considered hung: a swap then fails; at the start the
    process ends with code 1.
    """
    api_keys: str | None = None
    """File of API keys, one per line; requests then need one as `Authorization: Bearer KEY`."""
    log_requests: bool = True
    """Log one line per request, which never contains its texts."""

    def __post_init__(self) -> None:
        at_least(self, 1, "batch_tokens", "queue_tokens", "queue_requests", "max_body_bytes")
        at_least(self, 1, "max_characters", "max_items", "max_tokens", "max_new_tokens")
        at_least(self, 1, "keep_alive")
        at_least(self, 0.01, "header_seconds", "body_seconds", "reply_seconds")
        at_least(self, 0.01, "deadline", "batch_timeout", "load_timeout")
        at_least(self, 0, "drain_seconds")
        if not 0 <= self.port < 65536:
            raise OutOfRange(self, "port", "0 to 65535")
        if not self.host.strip():  # the system would listen on all addresses
            raise ConfigError("host is empty; expected an address, as 127.0.0.1 or 0.0.0.0")
        if self.device is not None and not re.fullmatch(_DEVICE, self.device):
            raise ConfigError(f"device is {self.device!r}; expected cpu, mps, cuda or cuda:NUMBER")

    @property
    def models(self) -> dict[str, str]:
        """Name -> folder. A folder without a name, even one with "=" in its path, is named by its
        last part.

        Raises:
            ConfigError: there is no model, or two have the same name.
        """
        folders: dict[str, str] = {}
        for each in self.model:
            name, equals, folder = each.partition("=")
            if not equals or os.path.isdir(each):
                name, folder = os.path.basename(os.path.abspath(each)), each
            if not name or not folder:
                raise ConfigError(f"model is {each!r}; expected FOLDER or NAME=FOLDER")
            if name in folders:
                raise ConfigError(f"two models are called {name}; name them: --model NAME=FOLDER")
            folders[name] = folder
        if not folders:
            raise ConfigError("there is no model to serve; name one with --model FOLDER")
        return folders

    @property
    def exports(self) -> dict[str, str]:
        """Name of a model -> folder of its export.

        Raises:
            ConfigError: an export names no model, or another model, or is a second one.
        """
        models = self.models
        folders: dict[str, str] = {}
        for each in self.exported:
            name, equals, folder = each.partition("=")
            if not equals or os.path.isdir(each):
                name, folder = next(iter(models)), each
                if len(models) > 1:
                    raise ConfigError(
                        f"exported is {each!r}; expected NAME=FOLDER, as there are several models"
                    )
            if name not in models or not folder or name in folders:
                known = ", ".join(models)
                raise ConfigError(
                    f"exported is {each!r}; expected one FOLDER of each model ({known})"
                )
            folders[name] = folder
        if folders and (self.precision != "fp32" or self.device not in (None, "cpu")):
            raise ConfigError(
                "an export runs on the CPU in its own precision: leave out --precision and --device"
            )
        return folders
