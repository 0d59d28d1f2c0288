"""Numbers as the pages show them."""

from __future__ import annotations

from bertwright.tasks.results import number


def figure(value: object) -> str:
    """A number with few digits."""
    found = number(value)
    if found is None:
        return "-" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{found:,.0f}" if abs(found) >= 1000 else f"{found:.4g}"


def count(value: object) -> str:
    """`12,345` or `6.5M`"""
    found = number(value)
    if found is None:
        return "-"
    return short(found) if found >= 1e6 else f"{found:,.0f}"


def short(value: float) -> str:
    """`250k`, `6.5M`, for axes."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def clock(seconds: float) -> str:
    """`55 s`, `4 min 30 s` or `1 h 04 min`"""
    if round(seconds) < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours} h {minute:02} min" if hours else f"{minute} min {second:02} s"
