"""One line for an error and what it says."""

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
