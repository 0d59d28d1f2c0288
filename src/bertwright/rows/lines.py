"""Decode bytes to lines of UTF-8; malformed and zero bytes are counted.

A malformed sequence becomes U+FFFD, and a zero byte is removed, in every file that is read. Whole
blocks are decoded; a file that is no text, or has another encoding, is an error whose message has
the command that converts it.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

from bertwright.errors import DataError
from bertwright.rows.compressed import BLOCK_BYTES
from bertwright.rows.open import name_of, open_bytes

MAX_ROW_CHARACTERS = 1 << 28
"""The most characters of a line or field of a table, which must be held in memory whole."""
MOST_ZEROS = 0.01
"""A file that begins with a larger fraction of zero bytes is not text."""
EXTRACT = (
    "extract the text of a PDF (pdftotext FILE.pdf FILE.txt), save a sheet as CSV, a document as "
    "plain text"
)
"""Advice for files of other programs."""
HEAD_LINES, HEAD_CHARACTERS = 200, 1 << 24
"""The number of lines, or of their characters, that are examined before a file is read."""
EXAMPLES = 5
"""The number of places of malformed bytes that are kept as examples."""


@dataclass
class ByteCounts:
    """What was in the bytes that were read."""

    # bytes read, after decompression; for Parquet and `datasets`, bytes of the text as UTF-8
    bytes: int = 0
    zero_bytes: int = 0  # zero bytes in the text, which are removed
    # malformed byte sequences and lone surrogates (in JSON escapes), each replaced by U+FFFD
    invalid_utf8: int = 0
    # the first positions of malformed bytes, as `FILE, byte N`
    invalid_places: list[str] = field(default_factory=list)

    def byte_remarks(self) -> list[str]:
        """Return a sentence on zero bytes, and one on malformed bytes, if there were any."""
        remarks = []
        if count := self.zero_bytes:
            remarks.append(f"{count:,} zero byte{'s' * (count != 1)} dropped")
        if count := self.invalid_utf8:
            places = f" (first: {', '.join(self.invalid_places)})" if self.invalid_places else ""
            remarks.append(
                f"{count:,} malformed UTF-8 sequence(s) or lone surrogate(s) replaced by U+FFFD"
                f"{places}. If a file has another encoding, as CSV files from Excel often do, "
                "convert it: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW"
            )
        return remarks


def read_text(
    stream: BinaryIO,
    name: str,
    counts: ByteCounts,
    *,
    arriving: bool = False,
    old_macs: bool = True,
) -> Iterator[str]:
    """Yield a stream of UTF-8 as decoded blocks of text.

    Line ends become `\\n`, and a byte order mark is removed. Zero bytes are removed and malformed
    bytes are replaced; both are counted.

    Args:
        stream: the bytes.
        name: the name of the file, for messages.
        counts: receives what was read.
        arriving: whether a block is what has arrived by a pipe, instead of a whole block.
        old_macs: whether a carriage return alone ends a line, as on old Macs. Where lines are
            matched with those of another file it does not, since one within a line would shift all
            that follow.

    Raises:
        DataError: the bytes are binary or have another encoding.
    """
    read = cast(BufferedReader, stream).read1 if arriving else stream.read
    rest = b""
    carriage_return = ""
    offset = 0
    while True:
        block = read(BLOCK_BYTES)
        counts.bytes += len(block)
        if not offset:
            _refuse_binary(block, name)
            plain = block.removeprefix(codecs.BOM_UTF8)
        else:
            plain = block
        if b"\0" in plain:  # BERT's rules remove zero bytes too
            counts.zero_bytes += plain.count(b"\0")
            plain = plain.replace(b"\0", b"")
        data = rest + plain if rest else plain
        try:
            text, used = codecs.utf_8_decode(data, "strict", not block)
        except UnicodeDecodeError as error:
            where = f"{name}, byte {max(0, offset - len(rest)) + error.start:,}"
            text, used = _replace(data, not block, where, counts, first=not offset)
        rest = data[used:]
        offset += len(block)
        if carriage_return or "\r" in text:
            text = carriage_return + text
            carriage_return = "\r" if block and text.endswith("\r") else ""
            text = text.removesuffix(carriage_return) if carriage_return else text
            text = normalize_lines(text) if old_macs else text.replace("\r\n", "\n")
        if text:
            yield text
        if not block:
            return


def normalize_lines(text: str) -> str:
    """Return the text with the line ends of Windows and old Macs as `\\n`."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _refuse_binary(block: bytes, name: str) -> None:
    if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError(
            f"{name} is UTF-16; expected UTF-8. Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW"
        )
    head = block[:8192]
    zeros = head.count(b"\0")
    if zeros > MOST_ZEROS * len(head):
        even = head[::2].count(b"\0")
        if zeros > 0.3 * len(head) and (even < zeros / 10 or even > zeros * 0.9):
            order = "LE" if even < zeros / 2 else "BE"
            raise DataError(
                f"{name} is UTF-16 ({zeros:,} of its first {len(head):,} bytes are zero); expected "
                f"UTF-8. Convert it: iconv -f UTF-16{order} -t UTF-8 FILE > NEW"
            )
    binary = zeros > max(1, MOST_ZEROS * len(head))
    if binary or block.startswith((b"%PDF-", b"PK\x03\x04")):
        what = f"{zeros:,} of its first {len(head):,} bytes are zero" if binary else "a PDF or ZIP"
        raise DataError(
            f"{name} is a binary file ({what}); expected UTF-8 text: {EXTRACT}; name a compressed "
            "file by its compression (.gz, .xz, .bz2, .zst), or leave it out"
        )


def _replace(
    data: bytes, final: bool, where: str, counts: ByteCounts, *, first: bool
) -> tuple[str, int]:
    """Decode with U+FFFD for malformed sequences, and count these."""
    text, used = codecs.utf_8_decode(data, "replace", final)
    # A U+FFFD that the file itself contains is not an error. Counting its bytes is exact, because
    # EF always starts a sequence.
    invalid = text.count("�") - data.count(b"\xef\xbf\xbd")
    whole = len(text) - len(text.encode("ascii", "ignore")) - invalid  # characters above ASCII
    if first and invalid > max(32, whole):
        raise DataError(
            f"{where}: {invalid / len(text):.1%} of the first characters are malformed, so this is "
            "not UTF-8. Convert it: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW (if its encoding is "
            "not that of western Windows, name that), or leave it out if it is binary"
        )
    counts.invalid_utf8 += invalid
    counts.invalid_places = [*counts.invalid_places, where][:EXAMPLES]
    return text, used


def line_groups(
    blocks: Iterable[str], name: str, longest: int | None = None, *, whole: bool = True
) -> Iterator[list[str]]:
    """Yield the lines that each block completes, without line ends, and without the byte order
    marks of concatenated files.

    A line that is longer than `longest` (None: `MAX_ROW_CHARACTERS`) is an error, or becomes
    several lines if it need not be `whole`.
    """
    parts: list[str] = []
    size, number = 0, 1
    longest = MAX_ROW_CHARACTERS if longest is None else longest
    for block in blocks:
        first, *others = block.split("\n")
        parts.append(first)
        size += len(first)
        if size > longest and not whole:
            yield ["".join(parts)]
            parts, size = [], 0
        elif size > longest:
            raise DataError(
                f"{name}, line {number:,} has over {longest:,} characters, which must be held in "
                "memory; split it"
            )
        if others:
            lines = ["".join(parts), *others[:-1]]
            parts, size = [others[-1]], len(others[-1])
            number += len(lines)
            yield [line.removeprefix("\ufeff") for line in lines]
    if size:
        yield ["".join(parts).removeprefix("\ufeff")]


def split_lines(blocks: Iterable[str], name: str, *, whole: bool = True) -> Iterator[str]:
    """Return an iterator over the lines of all blocks; see `line_groups`."""
    return chain.from_iterable(line_groups(blocks, name, whole=whole))


@dataclass(frozen=True)
class TextLines:
    """The lines of a file, without their line ends, of which the first have been read."""

    name: str
    head: Sequence[str]
    """The first lines."""
    rest: Iterator[str]
    """The lines after `head`."""

    @property
    def first(self) -> str:
        """The first line that is not blank; "" if none of the first lines has text."""
        return next((line for line in self.head if line.strip()), "")

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Yield all lines with their numbers, from 1."""
        return enumerate(chain(self.head, self.rest), 1)


def read_lines(stream: BinaryIO, name: str, counts: ByteCounts) -> TextLines:
    """Return the lines of a stream, of which the first are read; it is closed after the last."""

    def lines() -> Iterator[str]:
        with stream:
            yield from split_lines(read_text(stream, name, counts), name)

    rest = lines()
    head: list[str] = []
    size = 0
    while len(head) < HEAD_LINES and size < HEAD_CHARACTERS:
        if (line := next(rest, None)) is None:
            break
        head.append(line)
        size += len(line)
    return TextLines(name, head, rest)


def aligned_lines(stream: BinaryIO, name: str, counts: ByteCounts) -> Iterator[str]:
    """Return the lines of a file whose lines are matched with those of another."""
    return split_lines(read_text(stream, name, counts, old_macs=False), name)


def numbered_lines(path: Path, counts: ByteCounts) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, stripped, with their numbers."""
    for number, line in read_lines(open_bytes(path), name_of(path), counts).numbered():
        if line.strip():
            yield number, line.strip()


def decoded_lines(lines: Iterable[bytes], path: Path) -> Iterator[str]:
    """Yield the lines of a file that a program wrote (trees, an n-gram model) as text, without a
    byte order mark.

    Raises:
        DataError: a line is not UTF-8; the message names the line.
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"line {number} of {path} is not UTF-8 ({error.reason}); convert the file: iconv "
                "-f LATIN1 -t UTF-8"
            ) from error


def replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates, which JSON escapes can spell, as U+FFFD; or the text
    itself.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
