"""A pickle that acts when it is opened."""

from __future__ import annotations

from pathlib import Path


class Hostile:
    """What makes a file when a pickle of it is opened."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> object:
        return exec, (f"open({str(self.mark)!r}, 'w')",)
