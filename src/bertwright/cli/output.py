"""What a verb prints: results on standard output, everything else on standard error.

rich draws colours only on a terminal, and none where NO_COLOR is set.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from bertwright.atomic import disk_errors, sole_writer
from bertwright.config.values import plain
from bertwright.console import say


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object, in `plain` forms, on one line of standard output; the only line a
    `--json` verb prints. What standard output cannot hold, as lone surrogates, is escaped."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(plain(value), allow_nan=False)
    sys.stdout.write(text + "\n")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None
) -> None:
    """Print a table on standard output; columns whose cells are all numbers stand to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [list(row) for row in rows]
    # Text, not markup: "[MASK]" and "[/b]" are words, in a title too
    shown = None if title is None else Text(title, "table.title")
    table = Table(title=shown, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[index], (int, float)) for row in cells)
        table.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(_cell(cell)) for cell in row))
    Console(file=sys.stdout).print(table)


def print_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one a line, values in one column."""
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        sys.stdout.write(f"{name:<{width}}  {_cell(value)}\n")


@contextlib.contextmanager
def line_by_line(out: Path | None, prints: bool) -> Iterator[Callable[[str], None]]:
    """What writes a line at once to `out`, or where there is none, if it `prints`, to the screen.

    Of an interrupted run stays what was written; a file is opened with its first line.

    Raises:
        DataError: another process is writing `out`.
        BertwrightError: the disk is full or the folder is not writable.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(disk_errors(out or Path("standard output")))
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(sole_writer(out))

        @functools.cache
        def opened() -> TextIO | None:
            if out is None:
                return sys.stdout if prints else None
            return stack.enter_context(out.open("w", encoding="utf-8"))

        def write(line: str) -> None:
            if to := opened():
                to.write(line + "\n")
                to.flush()

        yield write
        opened()


def counted(number: int, what: str) -> str:
    """`1 text`, `2,000 texts`"""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def complain(message: str) -> None:
    """Print an error on standard error, red on a terminal; safe to call in a signal handler.

    Of the processes of a torchrun on one host one prints what is the same of all.
    """
    if _is_said_by_another(message):
        return
    red = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    say(f"\x1b[1;31mbertwright:\x1b[0m {message}" if red else f"bertwright: {message}")


def _is_said_by_another(message: str) -> bool:
    """Whether another process of this torchrun has claimed the message: each has a file for errors,
    in a folder of its own beside those of the others."""
    own = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not own or os.environ.get("WORLD_SIZE", "1") == "1":
        return False
    claim = Path(own).parents[1] / f"said-{zlib.crc32(message.encode()):08x}"
    try:
        claim.touch(exist_ok=False)
    except OSError as error:  # of any other kind: rather twice than never
        return isinstance(error, FileExistsError)
    return False


def _cell(value: object) -> str:
    """A value for a reader: few digits, thousands separated, yes and no."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)
