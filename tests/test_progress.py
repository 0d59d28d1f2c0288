"""How long work tells that it advances."""

from __future__ import annotations

import pytest

from bertwright.progress import clock


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (6.2, "0:07"), (59.6, "1:00"), (750, "12:30"), (3723, "1:02:03")],
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text
