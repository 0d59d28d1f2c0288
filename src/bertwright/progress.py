"""The callable to which long work reports its progress, so that it draws nothing itself."""

from __future__ import annotations

import math
from collections.abc import Callable

OnProgress = Callable[[int, int | None], None]
"""Called with the units done so far and their total, which is None while it is not known."""


def silent(*unused: object) -> None:
    """Ignore progress, or a line for the screen."""


def clock(seconds: float) -> str:
    """Return a time as `1:02:03`, or as `2:03` below an hour, rounded up to whole seconds."""
    minutes, second = divmod(math.ceil(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
