"""Where two JSON values differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


def differences(ours: Any, expected: Any, tolerance: float = 0.0, place: str = "") -> Iterator[str]:
    """Yield a line for each place where two values differ, by more than a tolerance in numbers.

    Without a tolerance 1 is not 1.0, and 0.0 is not -0.0. Of warnings only their number is
    compared, for they are sentences.
    """
    if isinstance(expected, dict) and isinstance(ours, dict):
        for key in [*expected, *(each for each in ours if each not in expected)]:
            inside = f"{place}/{key}"
            if key not in ours:
                yield f"{inside}: ours is missing, expected {short(expected[key])}"
            elif key not in expected:
                yield f"{inside}: ours {short(ours[key])}, not expected"
            elif key == "warnings":
                yield from differences(len(ours[key]), len(expected[key]), place=inside)
            else:
                yield from differences(ours[key], expected[key], tolerance, inside)
    elif isinstance(expected, list) and isinstance(ours, list) and len(expected) == len(ours):
        for number, (one, other) in enumerate(zip(ours, expected, strict=True)):
            yield from differences(one, other, tolerance, f"{place}/{number}")
    elif tolerance and isinstance(expected, float) and isinstance(ours, float):
        if ours != pytest.approx(expected, rel=tolerance, abs=tolerance, nan_ok=True):
            yield f"{place}: ours {ours}, expected {expected}"
    elif repr(ours) != repr(expected):
        yield f"{place}: ours {short(ours)}, expected {short(expected)}"


def short(value: Any) -> str:
    """A value in one line."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
