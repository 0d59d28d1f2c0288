"""Read files, folders, globs, standard input and `hf:NAME` as documents of sentences.

`read_documents` does everything in one stream. Alternatively, `read_blocks` yields raw documents in
blocks, in a fixed order, and `split_document`, a pure function that can be pickled, splits each
document in any process. Work that depends on the order (removing duplicates) is done by the reader.

Memory does not grow with the corpus: it holds a block, a document of at most
`documents.MAX_DOCUMENT_CHARACTERS`, and with `--deduplicate` about 70 bytes for each document, for
a set of 8-byte hashes. Among a million documents, two different ones share a hash with a
probability of 3e-8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from typing import cast

from bertwright.config.corpus import CorpusConfig
from bertwright.errors import DataError
from bertwright.rows.json import is_json_lines
from bertwright.rows.lines import read_text, split_lines
from bertwright.rows.open import open_with_position
from bertwright.text.corpus.cleaning import count_markup, strip_markup
from bertwright.text.corpus.documents import WIKI_DOCUMENT, split_documents, wiki_documents
from bertwright.text.corpus.find import ROW_SUFFIXES, find_files, format_of
from bertwright.text.corpus.pairs import PairFile, pair_texts
from bertwright.text.corpus.report import CorpusReport as CorpusReport
from bertwright.text.corpus.rows import read_dataset, read_rows
from bertwright.text.corpus.stories import babi_documents, is_babi
from bertwright.text.sentences import split_sentences

LONGEST_TITLE = 100
ENDS = ".!?:;。！？…\"'”’)"
"""The characters that may end a sentence; a title has none of them."""
MAX_SENTENCE_CHARACTERS = 4096
"""The most characters of a sentence. A longer one is split at a space, because tokenizers take
quadratic time.
"""


def read_documents(
    inputs: Sequence[str], config: CorpusConfig, report: CorpusReport
) -> Iterator[list[str]]:
    """Yield documents as lists of one or more sentences, and fill the report while reading.

    `inputs` are those of `find.find_files`.

    Raises:
        DataError: the input is unreadable or malformed, or there was no document at all.
        MissingExtra: the package for a format is not installed.
    """
    for block in read_blocks(inputs, config, report):
        for document in block:
            if sentences := split_document(document, config, report):
                yield sentences


def read_blocks(
    inputs: Sequence[str],
    config: CorpusConfig,
    report: CorpusReport,
    block_characters: int = 1 << 20,
    pairs: PairFile | None = None,
) -> Iterator[list[str]]:
    """Yield blocks of raw documents, decoded and deduplicated but not split into sentences.

    A block ends with the document that brings it to `block_characters`. If `pairs` is given, the
    one input is a file of pairs, and each side of a row is a document. The blocks depend only on
    the input, so work that is distributed by blocks gives the same bytes for any number of workers.

    Raises:
        DataError, MissingExtra: as `read_documents`.
    """
    passed_over: list[Path] = []
    paths = find_files(inputs, passed_over)
    report.files_passed_over += len(passed_over)
    cleaned = config.min_characters or config.deduplicate
    stays = partial(_stays, config=config, report=report, seen=set()) if cleaned else None
    block: list[str] = []
    size = 0
    for path in paths:
        for group in _read(path, config, report, pairs):
            for document in filter(stays, map(str.strip, group)):
                report.documents += 1
                report.characters += len(document)
                block.append(document)
                size += len(document)
                if size >= block_characters:
                    yield block
                    block, size = [], 0
    if block:
        yield block
    if not report.documents:
        raise DataError(
            f"no documents in {len(paths):,} input{'s' if len(paths) != 1 else ''} "
            f"({report.bytes:,} bytes read); expected text. Left out: {report.empty_documents:,} "
            f"without text, {report.short_documents:,} too short (--min-characters), "
            f"{report.duplicates:,} duplicates"
        )


def split_document(
    text: str, config: CorpusConfig, report: CorpusReport | None = None
) -> list[str]:
    """Return the sentences of one raw document; empty if cleaning left no text.

    Sentences have no white space at their ends, and are neither empty nor over
    `MAX_SENTENCE_CHARACTERS`. Sentences, splits and markup are counted in the report, if one is
    given.
    """
    if config.strip_markup:
        text = strip_markup(text)
    if config.sentences == "line":
        sentences = [line for line in map(str.strip, text.split("\n")) if line]
    else:
        sentences = split_sentences(text)
    if len(text) > MAX_SENTENCE_CHARACTERS:
        whole = len(sentences)
        if max(map(len, sentences), default=0) > MAX_SENTENCE_CHARACTERS:
            sentences = [part for sentence in sentences for part in _split_long(sentence)]
        if report is not None:
            report.sentences_cut += len(sentences) - whole
    if report is not None:
        report.sentences += len(sentences)
        _count_markup(text, sentences, report)
    return sentences


def _count_markup(text: str, sentences: list[str], report: CorpusReport) -> None:
    for kind, count in count_markup(text).items():
        setattr(report, kind, getattr(report, kind) + count)
    if len(sentences) == 1 and len(sentences[0]) < LONGEST_TITLE:
        report.title_documents += sentences[0][-1] not in ENDS


def _split_long(sentence: str) -> list[str]:
    parts, begin = [], 0
    while len(sentence) - begin > MAX_SENTENCE_CHARACTERS:
        most = begin + MAX_SENTENCE_CHARACTERS
        space = sentence.rfind(" ", begin + MAX_SENTENCE_CHARACTERS // 2, most)
        end = space if space >= 0 else most
        parts.append(sentence[begin:end])
        begin = end
    return [part for part in map(str.strip, [*parts, sentence[begin:]]) if part]


def _read(
    path: Path, config: CorpusConfig, report: CorpusReport, pairs: PairFile | None
) -> Iterator[list[str]]:
    """Yield the raw documents of one input in groups; some may be empty."""
    report.files += 1
    if str(path).startswith("hf:"):
        yield from read_dataset(str(path), config, report)
        return
    name = "standard input" if str(path) == "-" else str(path)
    kind = format_of(path)
    before = report.position
    stream, position = open_with_position(path)
    with stream:
        head = cast(BufferedReader, stream).peek()
        if kind in ("", ".wiki") and is_json_lines(head):
            kind = ".jsonl"
        if pairs is not None:
            groups = pair_texts(pairs, stream, report)
        elif kind in ROW_SUFFIXES:
            groups = read_rows(stream, kind, name, config, report)
        elif config.documents == "blank-line" and WIKI_DOCUMENT.match(head):
            lines = split_lines(read_text(stream, name, report), name, whole=False)
            groups = wiki_documents(lines, report)
        elif config.documents == "blank-line" and is_babi(head.decode("utf-8", "replace")):
            lines = split_lines(read_text(stream, name, report), name)
            groups = babi_documents(lines, name, report)
        else:
            groups = split_documents(read_text(stream, name, report), config.documents, report)
        for group in groups:
            report.position = before + position()
            yield group
        report.position = before + position()


def _stays(text: str, config: CorpusConfig, report: CorpusReport, seen: set[bytes]) -> bool:
    """Return whether a raw document is kept; those left out are counted."""
    if len(text) < config.min_characters:
        report.short_documents += bool(text)
        return False
    if config.deduplicate and text:
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        if digest in seen:
            report.duplicates += 1
            return False
        seen.add(digest)
    return bool(text)
