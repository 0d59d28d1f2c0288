"""Printing for the verbs: results go to standard output, everything else to standard error.

rich uses colours only on a terminal, and only if NO_COLOR is not set.
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

from bertwright.atomic import disk_errors, parents_made, sole_writer
from bertwright.config.values import plain
from bertwright.console import say
from bertwright.errors import ConfigError


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on one line of standard output, converted by `plain`.

    It is the only line that a verb prints with `--json`. Characters that the encoding of standard
    output cannot represent, such as lone surrogates, are escaped.
    """
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(plain(value), allow_nan=False)
    sys.stdout.write(text + "\n")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None
) -> None:
    """Print a table on standard output; columns whose cells are all numbers are right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [list(row) for row in rows]
    # Text, not markup, because "[MASK]" and "[/b]" may be words, also in a title
    shown = None if title is None else Text(title, "table.title")
    table = Table(title=shown, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[index], (int, float)) for row in cells)
        table.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(_cell(cell)) for cell in row))
    Console(file=sys.stdout).print(table)


def print_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one pair per line, with the values aligned in one column."""
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        sys.stdout.write(f"{name:<{width}}  {_cell(value)}\n")


PAGE = (".html", ".htm")
JSON = (".json", "")
JSON_LINES = (".jsonl", ".ndjson", ".json", ".txt", "")
"""The suffixes of the files that verbs write, the usual one first."""


def refuse_suffix(out: Path | None, *wanted: str) -> None:
    """Raise ConfigError if the name of a file to write does not end in a wanted suffix.

    An empty suffix allows a name without one.
    """
    if out is None or out.suffix.lower() in wanted:
        return
    expected = " or ".join(filter(None, wanted))
    error = ConfigError(f"--out is {out}; expected a name that ends in {expected}")
    error.retry = (str(out), str(out.with_suffix(wanted[0])))
    raise error


@contextlib.contextmanager
def line_by_line(out: Path | None, prints: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes a line at once, so that an interrupted run keeps its lines.

    The lines go to the file `out`. If `out` is None, they go to standard output if `prints` is
    true, and are discarded otherwise. The file is opened when its first line is written, or at the
    end of the block if there is no line.

    Raises:
        DataError: another process is writing `out`.
        BertwrightError: the disk is full or the folder is not writable.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(disk_errors(out or Path("standard output")))
        if out is not None:
            stack.enter_context(parents_made(out))
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
    """Return a number with its noun, as `1 text` or `2,000 texts`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def complain(message: str) -> None:
    """Print an error on standard error, red on a terminal; safe to call in a signal handler.

    If several processes of one torchrun on this host have the same message, one of them prints it.
    """
    if _is_said_by_another(message):
        return
    red = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    say(f"\x1b[1;31mbertwright:\x1b[0m {message}" if red else f"bertwright: {message}")


def _is_said_by_another(message: str) -> bool:
    """Return whether another process of this torchrun has claimed the message, else claim it.

    torchrun gives each process a file for errors, in a folder of its own. A claim is an empty file
    beside these folders, named by the CRC-32 of the message.
    """
    own = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not own or os.environ.get("WORLD_SIZE", "1") == "1":
        return False
    claim = Path(own).parents[1] / f"said-{zlib.crc32(message.encode()):08x}"
    try:
        claim.touch(exist_ok=False)
    except OSError as error:  # any other error: printing twice is better than not at all
        return isinstance(error, FileExistsError)
    return False


def _cell(value: object) -> str:
    """Return a value as text for people: few digits, thousands separators, and yes or no."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)
