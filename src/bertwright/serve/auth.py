"""API keys: read once, kept as digests, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from bertwright.errors import ConfigError


class ApiKeys:
    """The keys of a file, one a line; blank lines and those with # are skipped."""

    def __init__(self, path: str | Path) -> None:
        """Read the keys.

        Raises:
            ConfigError: no such file, or no key in it.
        """
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the file of keys {path}: {error}") from error
        keys = [line.strip() for line in lines]
        keys = [key for key in keys if key and not key.startswith("#")]
        self._digests = [_digest(key.encode()) for key in keys]
        if not self._digests:
            raise ConfigError(f"{path} has no key; write one a line")

    def allow(self, authorization: bytes) -> bool:
        """Whether a header `Authorization: Bearer KEY` has one of them; all are compared."""
        scheme, _, key = authorization.partition(b" ")
        digest = _digest(key.strip())
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(known, digest)
        return found and scheme.lower() == b"bearer"


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
