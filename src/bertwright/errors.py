"""Errors of Bertwright, each with the exit code with which the command line ends.

| exit code | class | means |
|---|---|---|
| 1 | `BertwrightError` | the run failed |
| 2 | `ConfigError` | usage or configuration |
| 3 | `MissingExtra` | an optional package is not installed |
| 4 | `DataError` | the input data is bad |
| 5 | `IntegrityError` | a file is not what its manifest says |
| 130, 143 | `Interrupted` | Ctrl-C or SIGTERM, after saving |

A message says what came, what was expected and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence


class BertwrightError(Exception):
    """A run failed for the reason in its message."""

    exit_code = 1
    retry: tuple[str, str] | None = None
    """A wrong value on the command line and the right one; the message of the command line then
    shows the corrected command."""


class ConfigError(BertwrightError, ValueError):
    """A key, value or argument that cannot be used."""

    exit_code = 2


class MissingExtra(BertwrightError, ImportError):
    """A package that is only needed for some work is not installed."""

    exit_code = 3

    def __init__(self, extra: str, package: str, purpose: str) -> None:
        super().__init__(
            f'{purpose} needs the package {package}: pip install "bertwright[{extra}]"'
        )
        self.extra = extra
        self.package = package


class DataError(BertwrightError, ValueError):
    """Input data that cannot be read or trained on."""

    exit_code = 4

    def __init__(self, message: str, options: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.options = tuple(options)
        """Options with which the command may succeed, as `("--label", "2")`; the message of the
        command line then shows the whole command with them."""


class IntegrityError(BertwrightError):
    """A file that is missing, was truncated or changed, or does not belong to the others."""

    exit_code = 5


class Interrupted(BertwrightError):
    """A signal ended the run after it saved; `exit_code` is 128 + the signal's number."""

    def __init__(self, signal_number: int, message: str) -> None:
        super().__init__(message)
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number


def shorten(text: object) -> str:
    """Return the `repr` of the first characters of a text, for a message."""
    text = str(text)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def listed(names: Sequence[object], most: int = 20) -> str:
    """Return shortened names joined by commas, for a message."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(shorten, names[:most])) + more
