"""One line for an error, and for what it names."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def raises(
    error: type[BaseException] | tuple[type[BaseException], ...],
    message: str,
    work: Callable[..., object],
    *arguments: object,
    **options: object,
) -> None:
    """`work` of these arguments ends by this error, whose message is found by this expression."""
    with pytest.raises(error, match=message):
        work(*arguments, **options)


def assert_names(said: object, *names: object) -> None:
    """An error, or what was printed, contains each of these: values, files, options, commands."""
    text = str(said)
    missing = [str(name) for name in names if str(name) not in text]
    assert not missing, f"{missing} not in: {text}"
