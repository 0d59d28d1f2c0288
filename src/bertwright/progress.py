"""Progress of long work goes to a callable, so that only the command line draws."""

from __future__ import annotations

import math
from collections.abc import Callable

OnProgress = Callable[[int, int | None], None]
"""Called with the units done so far and their total, None where nobody knows the total yet."""


def silent(*unused: object) -> None:
    """Show nothing: no progress, no line for the screen."""


def clock(seconds: float) -> str:
    """`1:02:03`, or `2:03` under an hour; a part of a second counts as one."""
    minutes, second = divmod(math.ceil(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
