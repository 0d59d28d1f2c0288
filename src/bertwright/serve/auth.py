"""API keys, compared in constant time."""

from __future__ import annotations

import hmac
from pathlib import Path

from bertwright.errors import ConfigError


class ApiKeys:
    """The keys of a file, one a line; blank lines and those with # are skipped."""

    def __init__(self, path: str | Path) -> None:
        """Read the keys, or raise `ConfigError`."""
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the file of keys {path}: {error}") from error
        self._keys = [key.encode() for line in lines if (key := line.strip()) and key[0] != "#"]
        if not self._keys:
            raise ConfigError(f"{path} has no key; write one a line")

    def allow(self, authorization: bytes) -> bool:
        """Whether a header `Authorization: Bearer KEY` has one of them; all are compared."""
        scheme, _, key = authorization.partition(b" ")
        found = [hmac.compare_digest(known, key.strip()) for known in self._keys]
        return any(found) and scheme.lower() == b"bearer"
