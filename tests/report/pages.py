"""What a browser would make of a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>&amp;\x00\ud800"\''


class Balanced(HTMLParser):
    """Fails on a tag that is closed out of turn; keeps what a browser would act on."""

    VOID = ("meta", "input", "br", "img", "link")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parse(page: str) -> Balanced:
    parser = Balanced()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def contrast(one: str, other: str) -> float:
    """The ratio of two colours' relative luminances, each raised by 0.05."""

    def luminance(colour: str) -> float:
        pairs = re.findall("..", colour if len(colour) == 6 else "".join(c * 2 for c in colour))
        parts = [int(pair, 16) / 255 for pair in pairs]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
