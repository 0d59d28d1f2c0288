"""`bertwright data trees`: sentences and their trees as pairs, to train a parser on.

The shards are those of `data build --parallel`: the source is a sentence's words, the target its
tree as a sequence (`text/treebank/linear.py`). The vocabulary is that of the words, with the tokens
of the trees at its end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bertwright.atomic import refuse_source
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.data.parallel.build import write_pairs
from bertwright.errors import DataError
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer
from bertwright.text.tokenizer.train import rules_of, train_on_counts
from bertwright.text.tokenizer.word_counts import count_block
from bertwright.text.treebank.linear import (
    MOST_WORDS,
    leaf_token,
    linearize,
    plain_word,
)
from bertwright.text.treebank.trees import pruned, read_trees


def build_trees(
    trees: str | Path,
    out: str | Path,
    tokenizer_folder: str | Path | None = None,
    *,
    vocab_size: int = 8000,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Encode a file or a folder of bracketed trees into the folder `out`; return its manifest.

    Without a `tokenizer_folder` (a WordPiece) a vocabulary of `vocab_size` is trained on the words.

    Raises:
        ConfigError: `out` holds something, or what is read.
        DataError: a tree that cannot be read (with its line), no tree, or no WordPiece vocabulary.
    """
    refuse_source(Path(out), Path(trees))
    found = [tree for tree in map(pruned, read_trees(trees)) if tree is not None]
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
    for tree, target in zip(short, targets, strict=True):
        sides += source_ids(tokenizer, tree.words()), [tokenizer.vocab[token] for token in target]
    lengths = np.array([len(side) for side in sides], np.int64)
    pairs = np.array([each for side in sides for each in side]), lengths, len(short)
    facts = {"inputs": [str(trees)], "too_long": len(found) - len(short)}
    return write_pairs(Path(out), tokenizer, [pairs], facts, overwrite=overwrite)


def source_ids(tokenizer: Tokenizer, words: list[str]) -> list[int]:
    """What a parser reads of a sentence: its words' tokens, each word after its number."""
    ids, lengths = tokenizer.encode_sentence_ids(list(map(plain_word, words)))
    found: list[int] = []
    ends = np.cumsum(lengths)
    for number, part in enumerate(np.split(ids, ends[:-1])):
        found += [tokenizer.vocab[leaf_token(number)], *part.tolist()]
    return found


def writes_trees(tokenizer: Tokenizer) -> bool:
    """Whether this is a parser's vocabulary."""
    return leaf_token(MOST_WORDS - 1) in tokenizer.vocab
