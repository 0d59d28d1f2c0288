"""How long work tells that it advances: by a callable, so that only the command line draws."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[int, int | None], None]
"""Called with the units done so far and their total, None where nobody knows the total yet."""


def silent(done: int, total: int | None) -> None:
    """Say nothing."""
