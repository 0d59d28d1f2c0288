"""Decode bytes to text and split it into raw documents, block by block.

Whole blocks are decoded and split with the methods of `bytes` and `str`; no line is processed by
itself. A document over `MAX_DOCUMENT_CHARACTERS` is split at a line, a sentence or a space, so that
memory is bounded whatever the file holds.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import BinaryIO

from bertwright.errors import DataError
from bertwright.text.corpus.files import BLOCK_BYTES, EXTRACT
from bertwright.text.corpus.report import EXAMPLES, CorpusReport

MAX_DOCUMENT_CHARACTERS = 1 << 23
"""The most characters of a document; a longer one is split into several."""
MOST_ZEROS = 0.01
"""A file that begins with a larger fraction of zero bytes is not text."""
LINES_WITHOUT_DOCUMENT = 1000
"""A file with more lines than this but only one document is counted as one without separators."""

_WHITE_LINES = re.compile(r"\n[^\S\n]+(?=\n)")
_SEPARATOR = {"blank-line": "\n\n", "line": "\n", "file": None}
WIKI_DOCUMENT = re.compile(rb"\s*<doc id=")
"""The beginning of a file of WikiExtractor."""


def read_text(stream: BinaryIO, name: str, report: CorpusReport) -> Iterator[str]:
    """Yield a stream of UTF-8 as decoded blocks of text.

    Line ends become `\\n`, and a byte order mark is removed. Zero bytes are removed and malformed
    bytes are replaced; both are counted.

    Raises:
        DataError: the bytes are binary or have another encoding.
    """
    rest = b""
    carriage_return = ""
    offset = 0
    while True:
        block = stream.read(BLOCK_BYTES)
        report.bytes += len(block)
        if not offset:
            _refuse_binary(block, name)
            plain = block.removeprefix(codecs.BOM_UTF8)
        else:
            plain = block
        if b"\0" in plain:  # BERT's rules remove zero bytes too
            report.zero_bytes += plain.count(b"\0")
            plain = plain.replace(b"\0", b"")
        data = rest + plain if rest else plain
        try:
            text, used = codecs.utf_8_decode(data, "strict", not block)
        except UnicodeDecodeError as error:
            where = f"{name}, byte {max(0, offset - len(rest)) + error.start:,}"
            text, used = _replace(data, not block, where, report, first=not offset)
        rest = data[used:]
        offset += len(block)
        if carriage_return or "\r" in text:
            text = carriage_return + text
            carriage_return = "\r" if block and text.endswith("\r") else ""
            text = text.removesuffix(carriage_return) if carriage_return else text
            text = normalize_lines(text)
        if text:
            yield text
        if not block:
            return


def wiki_documents(lines: Iterable[str], report: CorpusReport) -> Iterator[list[str]]:
    """Yield the documents of a file of WikiExtractor, in parts if they are large.

    Documents of one line, such as the title of a redirect, are left out. HTML entities become
    characters.
    """
    body: list[str] = []
    size, begun = 0, False
    for line in chain(lines, ["</doc>"]):
        if not line.startswith(("<doc id=", "</doc>")):
            body.append(html.unescape(line))
            size += len(line)
        ends = line.startswith("</doc>")
        if ends or size > MAX_DOCUMENT_CHARACTERS:
            text = "\n".join(body).strip()
            yield split_long_document(text, report) if begun or "\n" in text else []
            body, size, begun = [], 0, not ends


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
    data: bytes, final: bool, where: str, report: CorpusReport, *, first: bool
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
    report.invalid_utf8 += invalid
    report.invalid_places = [*report.invalid_places, where][:EXAMPLES]
    return text, used


def split_documents(
    blocks: Iterator[str], documents: str, report: CorpusReport
) -> Iterator[list[str]]:
    """Yield the raw documents of one text file in groups; some may be white space only.

    `blocks` may split the text anywhere. `documents` names the separator, as in `CorpusConfig`. The
    report counts `documents_cut` and `files_of_one_document`.
    """
    separator = _SEPARATOR[documents]
    parts: list[str] = []  # the parts of the document that is not yet complete
    size = lines = groups = 0
    held = ""
    for text in blocks:
        text = held + text
        # White space at the end is held back, shortened, so that no separator is split in two.
        # `rstrip` is only called if it strips something, as it copies the text.
        end = len(text.rstrip()) if text[-1].isspace() else len(text)
        held, text = _shorten(text[end:]), text[:end]
        if not text:
            continue
        if separator == "\n\n":
            text = _WHITE_LINES.sub("\n", text)
        texts = text.split(separator) if separator else [text]
        parts.append(texts[0])
        size += len(texts[0])
        if len(texts) > 1:
            texts[0] = "".join(parts)
            parts = [texts.pop()]
            size = len(parts[0])
            groups += 1
            yield [part for text in texts for part in split_long_document(text, report)]
        else:
            lines += text.count("\n")
        if size > MAX_DOCUMENT_CHARACTERS:
            *whole, rest = split_long_document("".join(parts), report)
            yield whole
            parts, size = [rest], len(rest)
    if not groups and lines > LINES_WITHOUT_DOCUMENT and documents == "blank-line":
        report.files_of_one_document += 1
    if parts:
        yield split_long_document("".join(parts), report)


def _shorten(space: str) -> str:
    if len(space) <= 4096:
        return space
    newlines = space.count("\n")
    return "\n" * min(newlines, 2) if newlines else space[:1]


def split_long_document(text: str, report: CorpusReport) -> list[str]:
    """Return the text, split into parts (which are counted) if it is over
    `MAX_DOCUMENT_CHARACTERS`.
    """
    if len(text) <= MAX_DOCUMENT_CHARACTERS:
        return [text]
    parts = []
    begin = 0
    while len(text) - begin > MAX_DOCUMENT_CHARACTERS:
        least, most = begin + MAX_DOCUMENT_CHARACTERS // 2, begin + MAX_DOCUMENT_CHARACTERS
        ends = ((text.rfind(mark, least, most), mark) for mark in ("\n", ". ", "。", " "))
        end = next((at + len(mark) for at, mark in ends if at >= 0), most)
        parts.append(text[begin:end])
        begin = end
        report.documents_cut += 1
    return [*parts, text[begin:]]
