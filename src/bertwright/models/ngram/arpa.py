"""ARPA files: the text form of n-gram models that SRILM, KenLM and others read and write.

    \\data\\
    ngram 1=5

    \\1-grams:
    -1.3<tab>word<tab>-0.4          log10 p, the n-gram, log10 of its back-off weight

    \\end\\

In these files the tokens for begin and end are `<s>` and `</s>`, and unknown words are `<unk>`.
`checkpoint/formats/arpa.py` makes models of them, and writes them.

Letters: V vocabulary, M n-grams of order k.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
import torch

from bertwright.arrays import Float64s, Int64s
from bertwright.errors import DataError
from bertwright.models.ngram.tables import NEVER, NgramTable
from bertwright.rows.compressed import COMPRESSED_SUFFIXES
from bertwright.rows.lines import decoded_lines
from bertwright.rows.open import open_bytes
from bertwright.text.framing import ends_of
from bertwright.text.tokenizer.tokenizer import Tokenizer

SUFFIX = ".arpa"
BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
MAX_ORDER = 32
"""The maximum order that is read; files of orders above 6 are rare."""
_MOST_DIGITS = 12
"""The maximum number of digits of the stated number of n-grams of an order."""
_AT_FIRST, _LONGEST_LINE = 1 << 16, 1 << 20
_LARGEST_WEIGHT = 99.0
"""The largest magnitude of a logarithm of base 10; `-99` stands for a probability of 0."""
_FIELDS = re.compile(r"[^ \t\r\n]+")
_LN10 = math.log(10)
Lines = Iterator[tuple[int | str, str]]
_END_OF_FILE = "after the last", ""


def is_arpa(path: Path) -> bool:
    """Return whether a path is an ARPA file, judged by its name."""
    name = path.stem if path.suffix in COMPRESSED_SUFFIXES else path.name
    return name.endswith(SUFFIX) and path.is_file()


def write(file: TextIO, words: Sequence[str], tables: Sequence[NgramTable]) -> None:
    """Write the tables of the orders 1 to n as an ARPA file.

    Args:
        words: the vocabulary, as `spelled` returns it.
    """
    file.write("\\data\\\n")
    file.writelines(f"ngram {k}={len(table.keys)}\n" for k, table in enumerate(tables, 1))
    texts: list[str] = [""]
    for k, table in enumerate(tables, 1):
        rows, last = np.divmod(table.keys.numpy(), len(words))
        pairs = zip(rows.tolist(), last.tolist(), strict=True)
        texts = [f"{texts[row]} {words[id]}".lstrip() for row, id in pairs]
        log_p, backoff = ((x.double() / _LN10).tolist() for x in (table.log_p, table.backoff))
        file.write(f"\n\\{k}-grams:\n")
        # the highest order has no weights
        for p, text, weight in zip_longest(log_p, texts, backoff):
            end = "" if weight is None else f"\t{weight:.7g}"
            file.write(f"{p:.7g}\t{text}{end}\n")
    file.write("\n\\end\\\n")


def spelled(tokenizer: Tokenizer, size: int) -> list[str]:
    """Return the tokens of a vocabulary as an ARPA file spells them."""
    words = tokenizer.tokens_of(range(size))
    if tokenizer.file_words is None:  # otherwise they were read from such a file
        ends = ends_of(tokenizer.special)
        if ends is not None:
            words[ends[0]], words[ends[1]] = BEGIN, END
        if "unk" in tokenizer.special:
            words[tokenizer.special["unk"]] = UNKNOWN
    if blank := next((word for word in words if len(word.split()) != 1), None):
        raise DataError(f"the token {blank!r} holds a blank or nothing, which no ARPA file can")
    return words


def read(path: Path) -> tuple[list[str], list[NgramTable], tuple[str, ...]]:
    """Return the vocabulary and the tables of an ARPA file, and notes on what the file lacks.

    A file without `<s>` gets it, with a probability of 0 and no n-gram that begins with it, so that
    the first word of a text is scored. With a file without `</s>`, the end of a text is not scored.
    """
    lines: Lines = _lines(path)
    sizes = _sizes(path, lines)
    ids: dict[str, int] = {}
    rows = {"": 0}  # the rows of the n-grams of the next lower order
    tables: list[NgramTable] = []
    notes: tuple[str, ...] = ()
    for k, size in enumerate(sizes, 1):
        if k > 1:
            _expect(path, lines, f"\\{k}-grams:")
        texts, keys, values = _section(path, lines, k, size, ids, rows)
        if k == 1:
            texts, keys, values, notes = _with_markers(texts, keys, values, ids)
        _refuse_repeated(path, k, keys)
        order = np.argsort(keys, kind="stable")
        log_p, backoff = (torch.from_numpy(x.astype(np.float32)) for x in values[order].T)
        if k == len(sizes):
            backoff = torch.empty(0)
        else:
            rows = {texts[n]: row for row, n in enumerate(order.tolist())}
        tables.append(NgramTable(torch.from_numpy(keys[order]), log_p, backoff))
    _expect(path, lines, "\\end\\")
    return list(ids), tables, notes


def _refuse_repeated(path: Path, k: int, keys: Int64s) -> None:
    """Raise DataError if an n-gram occurs twice."""
    if len(np.unique(keys)) < len(keys):
        raise DataError(f"{path} has one of its {k}-grams twice: keep one of them")


def _with_markers(
    texts: list[str], keys: Int64s, values: Float64s, ids: dict[str, int]
) -> tuple[list[str], Int64s, Float64s, tuple[str, ...]]:
    """Add the 1-grams that every model here has and the file lacks. Return the 1-grams and notes on
    what the file lacks.
    """
    notes: list[str] = []
    missing = [BEGIN] if BEGIN not in ids else []
    if missing:
        notes.append(f"the file has no {BEGIN}: the first word of a text is scored by itself")
    if END not in ids:
        notes.append(f"the file has no {END}: the end of a text is not scored")
    if UNKNOWN not in ids and UNKNOWN.upper() not in ids:
        missing.append(UNKNOWN)
        notes.append(f"the file has no {UNKNOWN}: a word that is not in it has a probability of 0")
    for word in missing:
        texts, keys = [*texts, word], np.append(keys, len(ids))
        ids[word], values = len(ids), np.append(values, [[NEVER, 0.0]], 0)
    return texts, keys, values, tuple(notes)


def _lines(path: Path) -> Lines:
    """Yield the lines of a file that are not empty, with their numbers. ASCII blanks around a line
    are removed; other blanks may be part of a word.
    """
    with open_bytes(path) as file:
        for number, line in enumerate(decoded_lines(_bounded_lines(file, path), path), 1):
            if line := line.strip(" \t\r\n"):
                yield number, line


def _bounded_lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the lines of a file; raise DataError if one is too long."""
    number = 0
    while line := file.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise DataError(
                f"line {number} of {path} has more than {_LONGEST_LINE >> 20} MB: it is no ARPA "
                "file"
            )
        yield line


def _expect(path: Path, lines: Lines, title: str) -> None:
    """Read the title of a section; raise DataError if the next line differs from it."""
    number, line = next(lines, _END_OF_FILE)
    if line != title:
        raise DataError(
            f"line {number} of {path} is {line[:40]!r}; expected {title}: it is truncated, or has "
            "more n-grams than it says"
        )


def _sizes(path: Path, lines: Lines) -> list[int]:
    """Return the number of n-grams of each order. The title of the first section is read too."""
    sizes: list[int] = []
    begun = any(line == "\\data\\" for _, line in lines)
    for _, line in lines:
        count = re.fullmatch(rf"ngram\s+{len(sizes) + 1}\s*=\s*(\d+)", line)
        if count is not None and (len(sizes) == MAX_ORDER or len(count[1]) > _MOST_DIGITS):
            raise DataError(
                f"{path} has the line {line[:60]!r}; expected orders up to {MAX_ORDER}, and "
                f"numbers of n-grams of at most {_MOST_DIGITS} digits"
            )
        if count is None and line == "\\1-grams:" and sizes:
            return sizes
        if count is None:
            break
        sizes.append(int(count[1]))
    expected = f"'ngram {len(sizes) + 1}=' with a number, or \\1-grams:" if begun else "\\data\\"
    raise DataError(f"{path} has no line {expected}: it is no ARPA file, or it is truncated")


def _section(
    path: Path, lines: Lines, k: int, size: int, ids: dict[str, int], rows: dict[str, int]
) -> tuple[list[str], Int64s, Float64s]:
    """Return the n-grams of one order, their keys, and their natural logarithms `[M, 2]`.

    Args:
        path: the file.
        lines: the lines that follow, with their numbers.
        k: the order.
        size: the number of n-grams that the file states.
        ids: maps words to ids; the first order fills it.
        rows: maps the n-grams of the next lower order to their rows.
    """
    texts: list[str] = []
    keys, values = np.empty(0, np.int64), np.empty((0, 2))
    for row in range(size):
        number, line = next(lines, _END_OF_FILE)
        fields = _FIELDS.findall(line)
        if row == len(keys):  # the stated count may be wrong: allocate only as lines come
            _refuse_repeated(path, k, keys)
            room = min(size, max(_AT_FIRST, 2 * row))
            keys.resize(room, refcheck=False)
            values.resize((room, 2), refcheck=False)
        try:
            if len(fields) not in (k + 1, k + 2):
                raise ValueError
            values[row, : len(fields) - k] = float(fields[0]), *map(float, fields[k + 1 :])
            *context, word = ngram = fields[1 : k + 1]
            if k == 1:
                ids.setdefault(word, row)
            keys[row] = rows[" ".join(context)] * len(ids) + ids[word]
            texts.append(" ".join(ngram))
        except (ValueError, KeyError) as error:
            raise DataError(
                f"line {number} of {path} is {line[:60]!r}; expected {k}-gram {row + 1:,} of "
                f"{size:,}: a logarithm, {k} words of the 1-grams, the first {k - 1} an n-gram of "
                "the file too, and perhaps another logarithm; or it is truncated"
            ) from error
    values = np.maximum(values, -99)  # SRILM writes -inf
    if not np.isfinite(values).all() or (values[:, 0] > 1e-6).any():
        raise DataError(f"{path} has {k}-grams whose probability is above 1 or no number")
    if (values[:, 1] > _LARGEST_WEIGHT).any():
        row = int(values[:, 1].argmax())
        raise DataError(
            f"{path} has {texts[row]!r} with a back-off weight of 10^{values[row, 1]:g}; expected "
            f"a logarithm of base 10 of at most {_LARGEST_WEIGHT:g}"
        )
    return texts, keys, values * _LN10
