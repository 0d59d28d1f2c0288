"""Decode bytes to text and split it into raw documents, block by block.

Whole blocks are decoded and split with the methods of `bytes` and `str`; no line is processed by
itself. A document over `MAX_DOCUMENT_CHARACTERS` is split at a line, a sentence or a space, so that
memory is bounded whatever the file holds.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from bertwright.text.corpus.report import CorpusReport

MAX_DOCUMENT_CHARACTERS = 1 << 23
"""The most characters of a document; a longer one is split into several."""
LINES_WITHOUT_DOCUMENT = 1000
"""A file with more lines than this but only one document is counted as one without separators."""

_WHITE_LINES = re.compile(r"\n[^\S\n]+(?=\n)")
_SEPARATOR = {"blank-line": "\n\n", "line": "\n", "file": None}
WIKI_DOCUMENT = re.compile(rb"\s*<doc id=")
"""The beginning of a file of WikiExtractor."""


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
