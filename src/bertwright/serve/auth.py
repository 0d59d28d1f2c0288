"""API keys, compared in constant time."""

from __future__ import annotations

import hmac
from pathlib import Path

from bertwright.errors import ConfigError


class ApiKeys:
    """The keys of a file, one on each line; blank lines and lines that begin with # are skipped."""

    def __init__(self, path: str | Path) -> None:
        """Read the keys, or raise `ConfigError` if the file cannot be read or has none."""
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the file of keys {path}: {error}") from error
        self._keys = [key.encode() for line in lines if (key := line.strip()) and key[0] != "#"]
        if not self._keys:
            raise ConfigError(f"{path} has no key; write one on each line")

    def allow(self, authorization: bytes) -> bool:
        """Return whether a header `Authorization: Bearer KEY` has one of the keys.

        All keys are compared, so that the time taken does not tell which one matched.
        """
        scheme, _, key = authorization.partition(b" ")
        matches = [hmac.compare_digest(known, key.strip()) for known in self._keys]
        return any(matches) and scheme.lower() == b"bearer"
