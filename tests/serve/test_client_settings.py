"""What a client is given: where an address leads, and what is refused before anything is sent."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from bertwright.errors import ConfigError
from bertwright.serve.client import AsyncClient, Client

both = pytest.mark.parametrize("kind", [Client, AsyncClient])


@both
def test_ports_and_certificates(kind: type) -> None:
    found = {
        url: kind(url)._address for url in ("http://x", "https://x", "https://x:8", "http://x:8")
    }
    assert [each.port for each in found.values()] == [80, 443, 8, 8]
    assert found["http://x"].tls is None
    for url in ("https://x", "https://x:8"):
        context = found[url].tls
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize(
    "settings",
    [
        *(
            {"url": url}
            for url in ("ftp://x", "nothing", "http://x:99999", "http://[::1", "http://:80", 3)
        ),
        *({"url": f"http://{more}"} for more in ("me:secret@x", "x/?a=b", "x/#a")),
        {"timeout": 0},
        {"timeout": "3"},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"retries": -1},
        {"retries": 1.5},
        {"key": b"a"},
        {"key": "a\r\nX: y"},
        {"key": "\u4f60"},
    ],
)
@both
def test_settings_that_cannot_be(kind: type, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        kind(**settings)
