"""Build shards of pairs, for `bertwright data build --parallel` and `bertwright data trees`.

`--parallel` reads two files whose lines translate each other, or one file of pairs. `data trees`
reads sentences with their trees, to train a parser on. The shards have the format of any corpus
(`data/shards.py`). `parallel` in their manifest says that each document is a pair, whose first
sentence is the source and whose second is the target. One vocabulary is used for both languages
(Vaswani et al. 2017, section 5.1), or for the words and, at its end, the tokens of linearized trees
(`text/treebank/trees.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from bertwright.arrays import Int64s
from bertwright.atomic import atomic_folder, refuse_source
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.data.shards import EncodedBlock, ShardWriter, token_dtype, write_shards_manifest
from bertwright.errors import ConfigError, DataError
from bertwright.progress import OnProgress, silent
from bertwright.rows.lines import aligned_lines
from bertwright.rows.open import open_with_position, size_on_disk
from bertwright.text.corpus.pairs import Pair, PairFile, read_pair_rows, where
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer
from bertwright.text.tokenizer.train import rules_of, train_on_counts
from bertwright.text.tokenizer.word_counts import count_block
from bertwright.text.treebank.trees import (
    MOST_WORDS,
    leaf_token,
    linearize,
    plain_word,
    read_trees,
)

SHARD_TOKENS = 1 << 26
BLOCK_LINES, BLOCK_CHARACTERS = 1 << 14, 1 << 24
"""The number of pairs, or of their characters, that are encoded at once."""


def build_parallel(
    source: str | Path,
    target: str | Path,
    out: str | Path,
    tokenizer_folder: str | Path,
    *,
    overwrite: bool = False,
    on_progress: OnProgress = silent,
    report: CorpusReport | None = None,
) -> dict[str, Any]:
    """Encode two files of sentences into the folder `out`, and return its manifest.

    The files have one sentence per line in UTF-8, and may be compressed. The tokenizer is one for
    both languages. Pairs of two empty lines are left out. `report` is filled while reading.
    """
    source, target, out = Path(source), Path(target), Path(out)
    if source == target:
        raise ConfigError(f"{source} is given twice; expected --parallel SOURCE TARGET")
    for path in (source, target, Path(tokenizer_folder)):
        refuse_source(out, path)
    tokenizer = load_tokenizer(tokenizer_folder)
    total = size_on_disk([source, target])
    files = [open_with_position(path) for path in (source, target)]
    blocks = _encoded(
        read_pairs(source, target, [file for file, _ in files], report),
        tokenizer,
        lambda number, pair: _require_both(number, pair, source, target),
        lambda: on_progress(sum(position() for _, position in files), total),
    )
    facts = {"inputs": [str(source), str(target)]}
    return write_pairs(out, tokenizer, blocks, facts, overwrite=overwrite)


def build_pair_file(
    pairs: PairFile,
    out: str | Path,
    tokenizer_folder: str | Path,
    *,
    overwrite: bool = False,
    on_progress: OnProgress = silent,
    report: CorpusReport | None = None,
) -> dict[str, Any]:
    """Encode a file of pairs into the folder `out`, and return its manifest.

    `pairs` is the result of `open_pairs`. The shards are the same as those that `build_parallel`
    writes for two files with the same lines. Rows with two empty sides are left out. `report` is
    filled while reading.
    """
    out = Path(out)
    for path in (pairs.path, Path(tokenizer_folder)):
        refuse_source(out, path)
    tokenizer = load_tokenizer(tokenizer_folder)
    total = size_on_disk([pairs.path])
    stream, position = open_with_position(pairs.path)

    def require_both(number: int, pair: Sequence[Any]) -> None:
        if any(pair) and not all(pair):
            empty, other = pairs.columns[::-1] if pair[0] else pairs.columns
            raise DataError(
                f"{where(pairs, number)}: the column {empty!r} is empty, but {other!r} is not: "
                "remove the row, or complete it"
            )

    facts = {"inputs": [str(pairs.path)], "columns": list(pairs.columns)}
    with stream:
        rows = read_pair_rows(pairs, stream, report)
        blocks = _encoded(rows, tokenizer, require_both, lambda: on_progress(position(), total))
        return write_pairs(out, tokenizer, blocks, facts, overwrite=overwrite)


def _encoded(
    pairs: Iterator[Pair],
    tokenizer: Tokenizer,
    require_both: Callable[[int, Sequence[Any]], None],
    on_block: Callable[[], None],
) -> Iterator[IdPairs]:
    """Yield the ids of pairs block by block. `require_both` is called with the number of each pair
    and the lengths of its sides.
    """
    while block := _next_block(pairs):
        ids, lengths = tokenizer.encode_sentence_ids([t for _, *pair in block for t in pair])
        for (number, *_), pair in zip(block, lengths.reshape(-1, 2).tolist(), strict=True):
            require_both(number, pair)
        yield ids, lengths[lengths > 0], len(block)
        on_block()


def _next_block(pairs: Iterator[Pair]) -> list[Pair]:
    """Return the next pairs to encode at once; empty at the end."""
    block: list[Pair] = []
    size = 0
    for pair in islice(pairs, BLOCK_LINES):
        block.append(pair)
        size += len(pair[1]) + len(pair[2])
        if size >= BLOCK_CHARACTERS:
            break
    return block


IdPairs = tuple[np.ndarray[Any, Any], Int64s, int]
"""The ids of some pairs, laid end to end; the length of each source and target; and the number of
pairs that were read, including empty ones."""


def write_pairs(
    out: Path,
    tokenizer: Tokenizer,
    blocks: Iterable[IdPairs],
    facts: dict[str, Any],
    *,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write encoded pairs as shards, and return their manifest, which includes `facts`."""
    continues, dtype = tokenizer.is_continuation, token_dtype(tokenizer.vocab_size)
    counts: Counter[str] = Counter()
    with atomic_folder(out, overwrite) as folder:
        writer = ShardWriter(folder, SHARD_TOKENS)
        try:
            for ids, lengths, read in blocks:
                pairs = len(lengths) // 2
                counts.update(
                    documents_read=read,
                    documents=pairs,
                    documents_lost=read - pairs,
                    sentences=len(lengths),
                    tokens=len(ids),
                    unknown_tokens=int((ids == tokenizer.unk_id).sum()),
                )
                two = np.full(pairs, 2, np.int64)
                writer.append(EncodedBlock(ids.astype(dtype), ~continues[ids], lengths, two, {}))
            writer.end_shard()
        finally:
            writer.abandon()
        if not writer.finished:
            raise DataError(f"{' and '.join(facts['inputs'])} hold no pair with text")
        tokenizer.save(folder / "tokenizer")
        facts = {**facts, "parallel": True}
        return write_shards_manifest(folder, tokenizer, counts, writer.finished, facts)


def read_pairs(
    source: Path,
    target: Path,
    files: list[Any] | None = None,
    report: CorpusReport | None = None,
) -> Iterator[Pair]:
    """Yield the lines of two files in pairs, each with its number, from 1.

    White space around the lines is removed. `report` is filled while reading.
    """
    report = CorpusReport() if report is None else report
    paths = source, target
    opened = files or [open_with_position(path)[0] for path in paths]
    lines = [
        aligned_lines(file, str(path), report) for file, path in zip(opened, paths, strict=True)
    ]
    for number, pair in enumerate(zip_longest(*lines), start=1):
        if None in pair:
            path, other = paths if pair[0] is None else paths[::-1]
            raise DataError(
                f"{path} ends after line {number - 1}, but {other} goes on: expected line i of "
                "one to translate line i of the other; look where they part"
            )
        texts = [line.strip() for line in pair]
        _require_both(number, texts, source, target)
        yield number, texts[0], texts[1]


def _require_both(number: int, pair: Sequence[Any], source: Path, target: Path) -> None:
    """Raise DataError if only one side of a pair is empty."""
    if any(pair) and not all(pair):
        path, other = (target, source) if pair[0] else (source, target)
        raise DataError(
            f"line {number} of {path} is empty, but that of {other} is not: remove the line from "
            "both"
        )


def build_trees(
    trees: str | Path,
    out: str | Path,
    tokenizer_folder: str | Path | None = None,
    *,
    vocab_size: int = 8000,
    overwrite: bool = False,
    on_progress: OnProgress = silent,
) -> dict[str, Any]:
    """Encode a file or a folder of bracketed trees into the folder `out`, and return its manifest.

    `tokenizer_folder` is the folder of a WordPiece tokenizer; None trains a vocabulary of
    `vocab_size` entries on the words of the trees. Trees of over `MOST_WORDS` words are left out.
    """
    refuse_source(Path(out), Path(trees))
    left_out: Counter[str] = Counter()
    found = list(read_trees(trees, on_progress, left_out))
    short = [tree for tree in found if len(tree.leaves()) <= MOST_WORDS]
    if not short:
        raise DataError(f"{trees} holds no tree of at most {MOST_WORDS} words")
    if tokenizer_folder is None:
        config = TokenizerConfig(vocab_size=vocab_size)
        texts = [" ".join(map(plain_word, tree.words())) for tree in short]
        tokenizer, _ = train_on_counts(count_block(texts, rules_of(config)), config)
    else:
        refuse_source(Path(out), Path(tokenizer_folder))
        tokenizer = load_tokenizer(tokenizer_folder)
    targets = [linearize(tree) for tree in short]
    tokens = {token for target in targets for token in target}
    tokens |= set(map(leaf_token, range(MOST_WORDS)))
    tokenizer = tokenizer.extended(sorted(tokens - tokenizer.vocab.keys()))

    sides: list[list[int]] = []
    sources = source_ids(tokenizer, [tree.words() for tree in short])
    for source, target in zip(sources, targets, strict=True):
        sides += source, [tokenizer.vocab[token] for token in target]
    lengths = np.array([len(side) for side in sides], np.int64)
    pairs = np.array([each for side in sides for each in side]), lengths, len(short)
    facts: dict[str, Any] = {"inputs": [str(trees)], "too_long": len(found) - len(short)}
    facts["left_out"] = dict(left_out)
    return write_pairs(Path(out), tokenizer, [pairs], facts, overwrite=overwrite)


def source_ids(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
    """Return the ids that a parser reads for each sentence: the tokens of every word, after the
    token of the word's number.
    """
    words = [plain_word(word) for sentence in sentences for word in sentence]
    ids, lengths = tokenizer.encode_sentence_ids(words)
    numbers = [tokenizer.vocab[leaf_token(n)] for words in sentences for n in range(len(words))]
    ends = np.cumsum(lengths)
    numbered = np.insert(ids, ends - lengths, numbers).tolist()
    stops = [0, *(ends + np.arange(1, len(words) + 1)).tolist()]  # where each word's ids end
    bounds = np.cumsum([0, *map(len, sentences)]).tolist()
    return [numbered[stops[first] : stops[last]] for first, last in pairwise(bounds)]


def is_of_tree(token: str) -> bool:
    """Return whether a token is one of linearized trees: a bracket with its label, or the number of
    a word.
    """
    return bool(re.fullmatch(r"[()].+|\[\d+\]", token))


def writes_trees(tokenizer: Tokenizer) -> bool:
    """Return whether a tokenizer has the vocabulary of a parser."""
    return leaf_token(MOST_WORDS - 1) in tokenizer.vocab
