"""The playground's files, as the server sends them.

`files()` gives every path the server answers, `/` for the page and `/playground/...` for what it
loads. Nothing comes from elsewhere, and `HEADERS` tells the browser to hold the page to it: no
script but its own, no frame around it, no request to another host.
"""

from __future__ import annotations

from importlib.resources import files as resources
from typing import NamedTuple

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
"""What every file of the playground is sent with."""

MEDIA = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


class PageFile(NamedTuple):
    """One file of the page."""

    content: bytes
    media_type: str
    """As the content-type header has it."""


def files() -> dict[str, PageFile]:
    """The playground by path: `/`, `/playground/app.js`, `/playground/style.css` and so on."""
    found: dict[str, PageFile] = {}
    for entry in resources("bertwright.serve.playground").iterdir():
        suffix = entry.name[entry.name.rfind(".") :]
        if suffix in MEDIA:
            path = "/" if entry.name == "index.html" else f"/playground/{entry.name}"
            found[path] = PageFile(entry.read_bytes(), f"{MEDIA[suffix]}; charset=utf-8")
    return found
