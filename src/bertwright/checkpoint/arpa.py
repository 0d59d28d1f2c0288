"""ARPA files, the text form of n-gram models that SRILM, KenLM and others read and write:

    \\data\\
    ngram 1=5
    ngram 2=9

    \\1-grams:
    -1.3<tab>word<tab>-0.4          log10 p, the n-gram, log10 of its back-off weight

    \\2-grams:
    -0.7<tab>first second

    \\end\\

The tokens for begin and end are `<s>` and `</s>` there, what is unknown is `<unk>`. Letters: V
vocabulary, M n-grams of order k.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.arrays import Float64s
from bertwright.atomic import atomic_file, refuse_existing, refuse_source
from bertwright.checkpoint import checkpoint, sources
from bertwright.checkpoint.word_vectors.convert import save_with_words
from bertwright.config.runs.language_models import NgramConfig
from bertwright.errors import ConfigError, DataError
from bertwright.objectives.ngrams import NEVER, Ngrams, Table
from bertwright.text.corpus.files import numbered_lines
from bertwright.text.framing import ends_of
from bertwright.text.tokenizer.tokenizer import Tokenizer

SUFFIX = ".arpa"
_SPECIAL = {"<s>": "[CLS]", "</s>": "[SEP]", "<unk>": "[UNK]", "<UNK>": "[UNK]"}
_LN10 = math.log(10)
Lines = Iterator[tuple[int | str, str]]
_END = "after the last", ""


def is_arpa(path: Path) -> bool:
    """Whether a path is an ARPA file by its name."""
    return path.name.removesuffix(".gz").endswith(SUFFIX) and path.is_file()


def export_arpa(source: Path, out: Path, overwrite: bool = False) -> list[int]:
    """Write an n-gram model as an ARPA file; how many n-grams there are of the orders 1 to n.

    Raises:
        ConfigError: it is no n-gram model, or `out` is there or ends otherwise.
        DataError: a token holds a blank, or as `checkpoint.load`.
    """
    if out.suffix != SUFFIX:
        raise ConfigError(f"DST is {out}; expected a file with {SUFFIX}")
    refuse_existing(out, overwrite, "DST")
    config = sources.read_config(checkpoint.find_checkpoint(source))
    if not isinstance(config, NgramConfig):
        raise ConfigError(f"{source} is no n-gram model, and an ARPA file holds no other")
    loaded = checkpoint.load(source)
    head: Any = loaded.learner.objectives["next_token"]
    words = _spelled(sources.read_tokenizer(loaded.folder, loaded.config), config.vocab_size)
    tables = [head.table(k) for k in range(1, config.order + 1)]
    sizes = [len(table.keys) for table in tables]
    with atomic_file(out, overwrite) as file:
        file.write("\\data\\\n")
        file.writelines(f"ngram {k}={size}\n" for k, size in enumerate(sizes, 1))
        texts: list[str] = [""]
        for k, table in enumerate(tables, 1):
            rows, last = np.divmod(table.keys.numpy(), config.vocab_size)
            ends = [words[id] for id in last.tolist()]
            pairs = zip(rows.tolist(), ends, strict=True)
            texts = ends if k == 1 else [f"{texts[row]} {end}" for row, end in pairs]
            file.write(f"\n\\{k}-grams:\n")
            file.writelines(_lines(texts, table))
        file.write("\n\\end\\\n")
    return sizes


def _lines(texts: list[str], table: Table) -> Iterator[str]:
    log_p, backoff = ((x.double() / _LN10).tolist() for x in (table.log_p, table.backoff))
    weights = [f"\t{each:.7g}" for each in backoff] or [""] * len(texts)  # none of the last order
    for p, text, weight in zip(log_p, texts, weights, strict=True):
        yield f"{p:.7g}\t{text}{weight}\n"


def _spelled(tokenizer: Tokenizer, size: int) -> list[str]:
    """The tokens as the file has them."""
    words = tokenizer.tokens_of(range(size))
    ends = ends_of(tokenizer.special)
    if ends is not None:
        words[ends[0]], words[ends[1]] = "<s>", "</s>"
    if "unk" in tokenizer.special:
        words[tokenizer.special["unk"]] = "<unk>"
    if blank := next((word for word in words if len(word.split()) != 1), None):
        raise DataError(f"the token {blank!r} holds a blank or nothing, which no ARPA file can")
    return words


def import_arpa(source: Path, out: Path, overwrite: bool = False) -> list[int]:
    """Write an ARPA file as a folder of ours; how many n-grams there are of the orders 1 to n.

    Its tokenizer is that of `import_vectors`.

    Raises:
        ConfigError: `out` is there.
        DataError: the file is truncated, or a line is not what its section says.
    """
    refuse_source(out, source, "DST")
    refuse_existing(out, overwrite, "DST")
    words, tables = _read(source)
    sizes = [len(table.keys) for table in tables]
    config = NgramConfig(len(words), len(tables), tuple(sizes[1:]))
    learner = checkpoint.make_learner(config, ["next_token"])
    head: Any = learner.objectives["next_token"]
    head.set_tables(tables)
    save_with_words(out, learner, words, source.name, overwrite)
    return sizes


def _read(path: Path) -> tuple[list[str], list[Table]]:
    """The vocabulary and the tables of an ARPA file."""
    lines: Lines = iter(numbered_lines(path))
    sizes = _header(path, lines)
    words: list[str] = []
    ids: dict[str, int] = {}
    head: Any = None
    tables: list[Table] = []
    for k, size in enumerate(sizes, 1):
        if k > 1:
            _expect(path, lines, f"\\{k}-grams:")
        grams, values = _section(path, lines, k, size, ids if k > 1 else None)
        if k == 1:
            words = [_SPECIAL.get(word, word) for word in grams]
            if "[UNK]" not in words:
                words, values = [*words, "[UNK]"], np.append(values, [[NEVER, 0.0]], 0)
            ids = {word: n for n, word in enumerate(words)}
            ids |= {theirs: ids[ours] for theirs, ours in _SPECIAL.items() if ours in ids}
            keys = np.array([ids[word] for word in words])
        else:
            matrix = torch.from_numpy(np.asarray(grams, np.int64).reshape(-1, k))
            rows = head.rows(matrix[:, :-1])[-1][:, -1].numpy()
            if (rows < 0).any():
                wrong = " ".join(words[n] for n in matrix[int((rows < 0).argmax())].tolist())
                raise DataError(
                    f"{path} has the {k}-gram {wrong!r}, but not its first {k - 1} tokens among "
                    f"the {k - 1}-grams: it was pruned by a program that leaves them out"
                )
            keys = rows * len(words) + matrix[:, -1].numpy()
        order = np.argsort(keys, kind="stable")
        if (np.diff(keys[order]) == 0).any():
            raise DataError(f"{path} has one of its {k}-grams twice: keep one of them")
        found = torch.from_numpy(values[order].astype(np.float32))
        empty = torch.empty(0)
        backoff = found[:, 1].contiguous() if k < len(sizes) else empty
        tables.append(Table(torch.from_numpy(keys[order]), found[:, 0].contiguous(), backoff))
        head = Ngrams(NgramConfig(len(words), k))
        head.set_tables(tables)
    _expect(path, lines, "\\end\\")
    return words, tables


def _expect(path: Path, lines: Lines, title: str) -> None:
    """Read the title of a section."""
    number, line = next(lines, _END)
    if line != title:
        raise DataError(
            f"line {number} of {path} is {line[:40]!r}; expected {title}: it is truncated, or has "
            "more n-grams than it says"
        )


def _header(path: Path, lines: Lines) -> list[int]:
    """The numbers of n-grams by order; the first section's title is read, too."""
    if not any(line == "\\data\\" for _, line in lines):
        raise DataError(f"{path} has no \\data\\ section: it is no ARPA file, or it is truncated")
    sizes: list[int] = []
    for _, line in lines:
        if line == "\\1-grams:" and sizes:
            return sizes
        count = re.fullmatch(rf"ngram\s+{len(sizes) + 1}\s*=\s*(\d+)", line)
        if count is None:
            break
        sizes.append(int(count[1]))
    raise DataError(
        f"{path} has no line 'ngram {len(sizes) + 1}=' with a number, or no \\1-grams: section: it "
        "is truncated"
    )


def _section(
    path: Path, lines: Lines, k: int, size: int, ids: dict[str, int] | None
) -> tuple[list[Any], Float64s]:
    """One order: words as text (k = 1), or k ids each; and `[M, 2]` natural logarithms."""
    grams: list[Any] = []
    values = np.zeros((size, 2))
    for row in range(size):
        number, line = next(lines, _END)
        fields = line.split()
        try:
            if len(fields) not in (k + 1, k + 2):
                raise ValueError
            values[row, : len(fields) - k] = float(fields[0]), *map(float, fields[k + 1 :])
            grams.append(fields[1] if ids is None else [ids[word] for word in fields[1 : k + 1]])
        except (ValueError, KeyError) as error:
            raise DataError(
                f"line {number} of {path} is {line[:60]!r}; expected {k}-gram {row + 1:,} of "
                f"{size:,}: a logarithm, {k} words of the 1-grams, and perhaps another logarithm; "
                "or it is truncated"
            ) from error
    values = np.maximum(values, -99)  # SRILM writes -inf
    if not np.isfinite(values).all() or (values[:, 0] > 1e-6).any():
        raise DataError(f"{path} has {k}-grams whose probability is above 1 or no number")
    return grams, values * _LN10
