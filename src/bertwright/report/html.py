"""Pieces of an HTML page: escaped text, tables, tiles, and the page with its style sheet.

Everything that comes from outside (paths, tokens, sentences, names of keys) passes through `text`.
The page needs no network and no script: the switch between tokens and time is two radio buttons
and a rule of the style sheet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from bertwright.atomic import disk_errors
from bertwright.errors import ConfigError


def text(value: object) -> str:
    """Any value as text that is safe between tags and in attributes."""
    # What HTML cannot hold (controls, lone surrogates) is shown as the mark for the unreadable.
    return escape(re.sub("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\ud800-\udfff]", "\ufffd", str(value)))


def write_page(out: Path, page: str) -> None:
    """Write a page whole or not at all.

    Raises:
        ConfigError: `out` cannot be the name of a file.
        BertwrightError: the disk is full or the place is not writable.
    """
    if out.is_dir() or not out.parent.is_dir():
        raise ConfigError(f"--out is {out}; expected a file in a folder that is there")
    with disk_errors(out):
        partial = out.with_name(f".{out.name}.partial")
        partial.write_text(page, encoding="utf-8")
        partial.replace(out)


def page(title: str, parts: Iterable[str]) -> str:
    """A whole document."""
    style = files("bertwright.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{text(title)}</title><style>{style}</style></head>\n<body><main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Sequence[int] = (),
    even: bool = False,
) -> str:
    """A table in a card; `numbers` are the columns that stand to the right. Cells are escaped,
    but for those `Markup`."""
    head = "".join(f"<th{_class(i, numbers)}>{text(name)}</th>" for i, name in enumerate(columns))
    body = "".join(
        "<tr>" + "".join(_cell(cell, i, numbers) for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
    inner = f"{top}<tbody>{body}</tbody>"
    style = ' class="even"' if even else ""
    return f'<div class="card"><table{style}>{inner}</table></div>'


class Markup(str):
    """Markup of our own that a table takes as it is."""


def tiles(facts: Iterable[tuple[str, str]], wide: bool = False) -> str:
    """Figures in boxes: (figure, what it is); `wide` has room for `91.2% ± 0.4`."""
    boxes = "".join(
        f'<div class="tile"><b>{text(v)}</b><span>{text(n)}</span></div>' for v, n in facts
    )
    style = "tiles wide" if wide else "tiles"
    return f'<div class="{style}">{boxes}</div>' if boxes else ""


def bars(
    rows: Iterable[tuple[str, float, bool]], show: Callable[[float], str] = "{:.1%}".format
) -> Markup:
    """Numbers as bars, the longest as wide as there is room: (name, number, does it stand out)."""
    rows = list(rows)
    most = max((share for _, share, _ in rows), default=0.0) or 1.0
    lines = []
    for name, share, stands_out in rows:
        style = ' class="right"' if stands_out else ""
        wide = 100 * max(0.0, share) / most
        lines.append(
            f"<li{style}><span>{text(name)}</span><b>{text(show(share))}</b>"
            f'<i><i style="width:{wide:.1f}%"></i></i></li>'
        )
    return Markup(f'<ul class="bars">{"".join(lines)}</ul>')


def cards(contents: Iterable[str]) -> str:
    """Markup in boxes side by side."""
    return f'<div class="cards">{"".join(f"<div class=card>{c}</div>" for c in contents)}</div>'


def settings(title: str, facts: Mapping[str, object]) -> str:
    """Names and values, folded away."""
    if not facts:
        return ""
    rows = [[Markup(f"<code>{text(k)}</code>"), "-" if v is None else v] for k, v in facts.items()]
    return folded(title, table(["", ""], rows))


def folded(title: str, content: str) -> str:
    """Markup that opens under its title."""
    return f"<details><summary>{text(title)}</summary>{content}</details>"


def _cell(cell: object, index: int, numbers: Sequence[int]) -> str:
    return f"<td{_class(index, numbers)}>{cell if isinstance(cell, Markup) else text(cell)}</td>"


def _class(index: int, numbers: Sequence[int]) -> str:
    return ' class="number"' if index in numbers else ""
