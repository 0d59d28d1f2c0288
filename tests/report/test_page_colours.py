"""Numbers in the confusion table stand out from their cells (WCAG 2.2, 1.4.3), dark too."""

from __future__ import annotations

import re

import pytest

from tests.house.source import PACKAGE
from tests.report.pages import contrast

CSS = (PACKAGE / "report" / "templates" / "page.css").read_text("utf-8")


def mixed(one: str, other: str, share: float) -> str:
    """`#rrggbb` of `color-mix(in srgb, one share, other)`."""
    pairs = zip(bytes.fromhex(one), bytes.fromhex(other), strict=True)
    return bytes(round(share * a + (1 - share) * b) for a, b in pairs).hex()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_numbers_on_coloured_cells(dark: bool, share: float) -> None:
    block = re.findall(r":root\{(.*?)\}", CSS, re.DOTALL)[dark]
    colours = dict(re.findall(r"--(\w+):#([0-9a-f]{6})\b", block))
    (tint,) = re.findall(r"--tint:([.\d]+)", block)
    depth = share * float(tint)
    assert contrast(colours["ink"], mixed(colours["good"], colours["rule"], depth)) >= 4.5
    assert contrast(colours["ink"], mixed(colours["dev"], colours["ground"], depth)) >= 4.5


def test_a_zero_on_the_diagonal_has_the_colour_of_text() -> None:
    pale = re.findall(r"([^{}]*td\.none[^{}]*)\{[^}]*color:", CSS)
    assert pale
    assert all("td.none:not(.right)" in selector for selector in pale)
