"""Read rows of JSON lines, CSV and TSV that are too long to be held in memory.

A compressed file of a few megabytes can hold a line of gigabytes. Rows of at most `LONGEST_ROW`
characters are read whole, by `json` and `csv`. From a longer row, the text of one column is read in
parts, in a single pass, by the same rules.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from bertwright.errors import DataError

LONGEST_ROW = 1 << 24
"""The most characters of a row that is held in memory whole."""
_LONGEST_KEY = 1 << 20
_STRING = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_SPACE = re.compile(r"[ \t]*")
_STRUCTURE = re.compile(r'["{}\[\],]')
_UNFINISHED = re.compile(r"\\u[0-9a-fA-F]{0,3}\Z")
_FIRST_OF_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")


@dataclass
class LongText:
    """A text of over `LONGEST_ROW` characters, in parts, which must be read before the next
    line.
    """

    parts: Iterator[str]


@dataclass
class LongRow:
    """A row of over `LONGEST_ROW` characters as it is in the file, with line ends, in parts, which
    must be read before the next row.
    """

    parts: Iterator[str]
    delimiter: str
    quoted: bool
    """Whether fields may be quoted as in CSV."""


class _TooLong(Exception):
    """Raised if a row of CSV is longer than what is held in memory."""


def split_long_lines(blocks: Iterable[str], longest: int | None = None) -> Iterator[str | LongText]:
    """Yield lines without line ends and byte order marks; a line of over `longest` characters in
    parts.

    `longest` None is `LONGEST_ROW`.
    """
    longest = LONGEST_ROW if longest is None else longest
    blocks = iter(blocks)
    parts: list[str] = []
    size = 0
    for block in blocks:
        first, *others = block.split("\n")
        parts.append(first)
        size += len(first)
        if size > longest:
            after: list[str] = []
            line = _to_line_end(parts, bool(others), blocks, after)
            yield LongText(line)
            for _ in line:
                pass
            parts, size, others = [], 0, others or after
            if others:
                parts, size = [others[0]], len(others[0])
                others = others[1:]
        for line_begin in others:
            yield "".join(parts).removeprefix("\ufeff")
            parts, size = [line_begin], len(line_begin)
    if size:
        yield "".join(parts).removeprefix("\ufeff")


def _to_line_end(
    parts: list[str], whole: bool, blocks: Iterator[str], after: list[str]
) -> Iterator[str]:
    """Yield the parts of a line; `after` receives the lines that follow it in its last block."""
    yield parts[0].removeprefix("\ufeff")
    yield from parts[1:]
    if whole:
        return
    for block in blocks:
        first, *others = block.split("\n")
        yield first
        if others:
            after.extend(others)
            return


def split_long_csv(
    lines: Iterator[str | LongText], name: str, delimiter: str, first_line: int = 1
) -> Iterator[tuple[int, list[str] | LongRow]]:
    """Yield the rows of CSV that are not empty, with the line that each begins at.

    Raises:
        DataError: a quote is not closed, or closes before the end of its field.
    """
    csv.field_size_limit(max(csv.field_size_limit(), 2 * LONGEST_ROW))
    held: list[str | LongText] = []
    number = first_line
    read = 0

    def ended() -> Iterator[str]:
        nonlocal read
        size = 0
        for line in lines:
            size = (size if held else 0) + (len(line) + 1 if isinstance(line, str) else 0)
            held.append(line)
            if size > LONGEST_ROW or isinstance(line, LongText):
                raise _TooLong
            read += 1
            yield f"{line}\n"

    while True:
        reader = csv.reader(ended(), delimiter=delimiter, strict=True)
        try:
            for row in reader:
                held.clear()
                if row:
                    yield number, row
                number = first_line + read
            return
        except csv.Error as error:
            raise DataError(
                f"{name}, line {number:,}: {error}; expected CSV with closed quotes"
            ) from error
        except _TooLong:
            first, taken = held, [0]
            held = []
            yield number, LongRow(_with_ends(chain(first, lines), taken), delimiter, True)
            number += taken[0]
            read = number - first_line


def _with_ends(lines: Iterator[str | LongText], taken: list[int]) -> Iterator[str]:
    for line in lines:
        taken[0] += 1
        if isinstance(line, LongText):
            yield from line.parts
            yield "\n"
        else:
            yield f"{line}\n"


def field_of_row(row: LongRow, index: int, width: int, where: str) -> Iterator[str]:
    """Yield the text of one field of a row of `width` fields, in parts; read exactly to the row's
    end.

    Raises:
        DataError: the row has another number of fields, or a quote is not closed; `where` names the
            row.
    """
    delimiter, quoted = row.delimiter, row.quoted
    ends = re.compile(f"[{re.escape(delimiter)}\n]")
    number, state = 0, "begin"
    for piece in row.parts:
        at = 0
        while at < len(piece):
            if state == "begin":
                state = "quoted" if quoted and piece[at] == '"' else "bare"
                at += state == "quoted"
            elif state == "quoted":
                end = piece.find('"', at)
                stop = end if end >= 0 else len(piece)
                if number == index:
                    yield piece[at:stop]
                at = stop + 1
                state = "quoted" if end < 0 else "closed"
            elif state == "closed" and piece[at] == '"':
                if number == index:
                    yield '"'
                at, state = at + 1, "quoted"
            elif state == "closed" and piece[at] not in (delimiter, "\n"):
                raise DataError(f"{where}: a quote is closed before its field ends")
            else:
                match = ends.search(piece, at)
                stop = match.start() if match else len(piece)
                if number == index:
                    yield piece[at:stop]
                at, state = stop + 1, "begin" if match else "bare"
                if match and match[0] == "\n":
                    if number + 1 != width:
                        raise DataError(
                            f"{where} has {number + 1} fields; the header has {width}. Mend the "
                            "line, or quote separators in its text"
                        )
                    return
                number += match is not None
    raise DataError(f"{where}: a quote is not closed; expected CSV with closed quotes")


class _Text:
    """A long text that is read sequentially, a block at a time."""

    def __init__(self, parts: Iterator[str], where: str) -> None:
        self.parts, self.where = parts, where
        self.text, self.at = "", 0

    def more(self) -> bool:
        """Read one more part; return whether there was one."""
        part = next(self.parts, None)
        self.text = self.text[self.at :] + (part or "")
        self.at = 0
        return part is not None

    def character(self) -> str:
        """Return the next character that is not a blank, without consuming it; "" at the end."""
        while True:
            self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def expect(self, expected: str) -> str:
        """Consume one of the expected characters and return it."""
        came = self.character()
        if not came or came not in expected:
            raise self.error(f"expected {' or '.join(expected)}, and {came or 'the end'!r} came")
        self.at += 1
        return came

    def error(self, reason: object) -> DataError:
        return DataError(f"{self.where} is no JSON: {reason}")

    def string(self) -> Iterator[str]:
        """Consume the rest of a string after its opening quote, and yield it decoded in parts."""
        while True:
            end = _STRING.match(self.text, self.at).end()  # type: ignore[union-attr]
            closed = self.text.startswith('"', end)
            stop = end if closed else self._whole_escapes(end)
            if stop > self.at:
                try:
                    yield json.loads(f'"{self.text[self.at : stop]}"')
                except ValueError as error:
                    raise self.error(error) from error
            self.at = stop
            if closed:
                self.at += 1
                return
            if not self.more():
                raise self.error("a string has no end")

    def _whole_escapes(self, end: int) -> int:
        """Return the last place before `end` where no escape, and no surrogate pair of escapes, is
        split.
        """
        for pattern in (_UNFINISHED, _FIRST_OF_PAIR):
            match = pattern.search(self.text, max(self.at, end - 6), end)
            if match is None:
                continue
            before = self.text[self.at : match.start()]
            if (len(before) - len(before.rstrip("\\"))) % 2 == 0:  # it is itself not escaped
                end = match.start()
        return end

    def skip_value(self) -> None:
        """Advance to the comma or bracket after a value."""
        depth = 0
        while True:
            match = _STRUCTURE.search(self.text, self.at)
            if match is None:
                self.at = len(self.text)
                if not self.more():
                    raise self.error("an object has no end")
                continue
            mark, self.at = match[0], match.start()
            if depth == 0 and mark in ",}]":
                return
            self.at += 1
            if mark == '"':
                for _ in self.string():
                    pass
            else:
                depth += (mark in "{[") - (mark in "}]")


def string_of_object(parts: Iterator[str], column: str, where: str) -> Iterator[str]:
    """Yield the text of a column of a JSON object, in parts; nothing for null.

    Raises:
        DataError: it is not a JSON object, has no such column, or its value is not a string;
            `where` names the row.
    """
    text = _Text(parts, where)
    text.expect("{")
    found = False
    while True:
        text.expect('"')
        key = ""
        for part in text.string():
            key += part
            if len(key) > _LONGEST_KEY:
                raise text.error("a name of a column has over a million characters")
        text.expect(":")
        first = text.character()
        if key == column and first not in '"n':
            raise DataError(f"{where}: column {column!r} holds no string; expected a string")
        if key == column and first == '"':
            if found:
                raise DataError(f"{where}: column {column!r} comes twice; expected it once")
            text.at += 1
            yield from text.string()
        else:
            text.skip_value()
        found = found or key == column
        if text.expect(",}") == "}":
            break
    if text.character():
        raise text.error("something follows the object")
    if not found:
        raise DataError(f"{where} has no column {column!r}. Name one: --text-column NAME")
