"""A small configuration and verbs over it, as a real verb would be written."""

from __future__ import annotations

import json as json_module
import warnings
from dataclasses import dataclass, field
from typing import Annotated, Literal

from cyclopts import Parameter

from bertwright.cli.options import EVERY_KEY, ConfigFile, Json
from bertwright.cli.output import print_json
from bertwright.config import values
from bertwright.errors import BertwrightError, ConfigError, DataError, IntegrityError, MissingExtra


@dataclass(frozen=True)
class SampleOptimizer:
    """A section."""

    learning_rate: float = 1e-3
    """The highest learning rate."""
    decay: bool = True
    """Decay weights."""
    betas: tuple[float, float] = (0.9, 0.999)
    """How fast the moments
    forget."""
    name: str | None = "adamw"
    """Which one."""
    skip: tuple[int, ...] = ()
    """Layers to leave out."""

    def __post_init__(self) -> None:
        if self.learning_rate <= 0:
            raise ConfigError(f"learning_rate is {self.learning_rate}; expected more than 0")


@dataclass(frozen=True)
class SampleConfig:
    """A run."""

    data: str = ""
    """A folder of shards; the name of a verb group too, which must not hide it."""
    model: Literal["bert-mini", "bert-base"] = "bert-mini"
    """A preset."""
    steps: int | None = None
    """How many steps."""
    resume: bool = False
    """Go on where it stopped."""
    optimizer: SampleOptimizer = field(default_factory=SampleOptimizer)
    """The optimizer."""
    second: SampleOptimizer | None = None
    """Another one."""


def train(
    *, config: Annotated[SampleConfig, EVERY_KEY] = SampleConfig(), config_file: ConfigFile = None
) -> None:
    """Train a sample.

    A second paragraph about [MASK].
    """
    print(json_module.dumps(values.to_dict(config)))


def build(
    *corpus: Annotated[str, Parameter(help="Files.")],
    out: Annotated[str, Parameter(help="Folder to write.")],
    workers: Annotated[int, Parameter(help="Processes.")] = 1,
    json: Json = False,
) -> None:
    """Build something."""
    print_json({"corpus": corpus, "out": out, "workers": workers, "json": json})


def fail(how: Annotated[str, Parameter(help="Which failure.")]) -> int | None:
    """Fail in the way asked for."""
    if how in ("code", "warn"):
        if how == "warn":
            from bertwright.checkpoint.find import DamagedCheckpoint

            warnings.warn(DamagedCheckpoint("step-2 is damaged"), stacklevel=2)
            warnings.warn("of another package", RuntimeWarning, stacklevel=2)
        return 4
    if how == "interrupt":
        raise KeyboardInterrupt
    failures: dict[str, Exception] = {
        "run": BertwrightError("loss is not finite at step 3"),
        "config": ConfigError("no such model"),
        "extra": MissingExtra("zst", "zstandard", "reading .zst"),
        "data": DataError("no documents"),
        "integrity": IntegrityError("shard cut"),
        "pipe": BrokenPipeError(),
        "disk": OSError(28, "No space left on device", "/out"),
        "bug": ZeroDivisionError("division by zero"),
    }
    raise failures[how]


def wait(folder: Annotated[str, Parameter(help="Where to leave marks.")]) -> None:
    """Wait for a signal, and tidy up when it comes."""
    import time
    from pathlib import Path

    try:
        print("ready", flush=True)
        for _ in range(600):
            time.sleep(0.1)  # a signal just before one long sleep would wait for its end
    finally:
        (Path(folder) / "tidied").touch()
