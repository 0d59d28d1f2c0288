"""Sentences to constituency trees, by a translation model that was trained on trees.

Vinyals et al. 2015; Vaswani et al. 2017, section 6.3: beam search over the sequences of trees, a
target at most 300 tokens longer than its source, length penalty 0.3. What is found is repaired to a
tree over the sentence's words (`text/treebank/linear.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bertwright.config.generation import TranslationConfig
from bertwright.data.parallel.trees import source_ids, writes_trees
from bertwright.errors import DataError
from bertwright.inference.encode import ModelRunner
from bertwright.inference.translation.translate import search_targets
from bertwright.text.treebank.linear import MOST_WORDS, assemble
from bertwright.text.treebank.trees import TOP, Tree

LONGER = 300
LENGTH_PENALTY = 0.3
_WORDS = re.compile(
    r"\w+(?=n['\u2019]t\b)|n['\u2019]t\b|['\u2019](?:s|re|ve|ll|d|m)\b|\w+(?:[.,]\d+)*|\.\.\.|[^\w\s]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Parsed:
    """A sentence and its tree."""

    words: list[str]
    tree: Tree
    """Below TOP; every tag is XX."""
    well_formed: bool
    """Whether the sequence was a tree over the words as the model wrote it."""
    score: float
    """Its log-probability over its length to the power of the penalty."""


def split_sentence(text: str) -> list[str]:
    """A text as words, about as treebanks have them: `didn't` is `did n't`, marks stand alone."""
    return _WORDS.findall(text)


def parse(
    runner: ModelRunner, groups: Iterable[Sequence[Sequence[str]]], beam: int = 4
) -> Iterator[Parsed]:
    """Parse sentences of words, those of a group (of `translate.TEXTS`) together.

    Yields:
        One each, in order; the tree of a sentence without words is empty.

    Raises:
        DataError: no parser, or a sentence longer than the model reads; its number is named.
    """
    runner.require("translation", "parsing")
    tokenizer = runner.tokenizer
    if not writes_trees(tokenizer):
        raise DataError(
            f"{runner.name} translates, but its vocabulary has no brackets: expected a model that "
            "was trained on the shards of bertwright data trees"
        )
    of_trees = re.compile(r"[()].+|\[\d+\]")
    never = [n for token, n in tokenizer.vocab.items() if not of_trees.fullmatch(token)]
    config = TranslationConfig(beam, LENGTH_PENALTY)
    done = 0
    for group in groups:
        some = [list(words) for words in group]
        sources = []
        for number, words in enumerate(some, done + 1):
            if len(words) > MOST_WORDS:
                raise DataError(
                    f"sentence {number} has {len(words):,} words; a parser reads {MOST_WORDS}: "
                    "give it a sentence at a time"
                )
            sources.append(tokenizer.framing.one(source_ids(tokenizer, words) if words else []))
        found = search_targets(runner, sources, config, LONGER, never, done)
        for words, best in zip(some, found, strict=True):
            if best is None:
                yield Parsed(words, Tree(TOP), True, 0.0)
                continue
            tree, whole = assemble(tokenizer.tokens_of(best.ids), words)
            yield Parsed(words, tree, whole and best.reason == "stop", best.score)
        done += len(some)
