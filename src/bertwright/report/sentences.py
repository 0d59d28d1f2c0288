"""Render the sentences of pages, terminals and model cards from `templates/*.txt.j2`.

A file has a macro for each sentence. Python computes which one applies and its figures; the words
are in the template. Macros that templates share, such as lists, are in `words.txt.j2`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bertwright.report import numbers

FILTERS: dict[str, Callable[..., object]] = {
    **{
        name: getattr(numbers, name)
        for name in ("count", "show", "spread", "number", "title", "baseline_title")
    },
    "percent": "{:.1%}".format,
    "hundredths": lambda fraction: f"{100 * fraction:.1f}",
    "number_of": "{:,}".format,
}
"""Filters of all templates."""


def sentence(file: str, macro: str, **facts: Any) -> str:
    """Return the text of a macro of `templates/FILE.txt.j2`, on one line."""
    template = _environment().get_template(f"{file}.txt.j2")
    return " ".join(str(getattr(template.module, macro)(**facts)).split())


@cache
def _environment() -> Environment:
    """Return the environment of plain text, which a page escapes where it is shown."""
    environment = Environment(
        loader=PackageLoader("bertwright.report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    return environment
