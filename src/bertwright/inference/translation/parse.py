"""Sentences to constituency trees, by a translation model that was trained on trees.

Vinyals et al. 2015; Vaswani et al. 2017, section 6.3: beam search over the sequences of trees, a
target at most 300 tokens longer than its source, length penalty 0.3. What is found is repaired to a
tree over the sentence's words (`text/treebank/trees.py`).

Labelled bracketing F1 is by the rules of evalb (Sekine and Collins, COLLINS.prm). A bracket is a
label with the words it spans. Labels count without functions and indices; ADVP and PRT are one; TOP
and empty elements are left out, and punctuation is taken out of the words (tags `, : `` '' .`), so
that it moves no span. Precision and recall are over all brackets of all sentences. Our trees have
no tags, so what is punctuation is said by the right tree's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bertwright.config.generation import TranslationConfig
from bertwright.data.parallel.build import source_ids, writes_trees
from bertwright.errors import DataError
from bertwright.inference.encode import ModelRunner
from bertwright.inference.translation.translate import search_targets
from bertwright.text.treebank.trees import MOST_WORDS, TOP, Tree, assemble, category

LENGTH_PENALTY = 0.3
PUNCTUATION = {",", ":", "``", "''", "."}
SAME = {"PRT": "ADVP"}


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


def require_parser(runner: ModelRunner) -> None:
    """Raise DataError if a model does not write trees."""
    runner.require("translation", "parsing")
    if not writes_trees(runner.tokenizer):
        raise DataError(
            f"{runner.name} translates, but its vocabulary has no brackets: expected a model that "
            "was trained on the shards of bertwright data trees"
        )


def reads(runner: ModelRunner, words: Sequence[str]) -> bool:
    """Whether a parser reads a sentence of so many words and tokens."""
    if len(words) > MOST_WORDS:
        return False
    (ids,) = source_ids(runner.tokenizer, [words])
    longest = runner.spec.max_length
    return longest is None or len(runner.tokenizer.framing.one(ids)) <= longest


def parse(
    runner: ModelRunner, groups: Iterable[Sequence[Sequence[str]]], beam: int = 4
) -> Iterator[Parsed]:
    """Parse sentences of words in order, those of a group (of `translate.TEXTS`) together; the tree
    of a sentence without words is empty.

    Raises:
        DataError: no parser, or a sentence longer than the model reads; its number is named.
    """
    require_parser(runner)
    tokenizer = runner.tokenizer
    config = TranslationConfig(beam, LENGTH_PENALTY)
    done = 0
    for group in groups:
        some = [list(words) for words in group]
        for number, words in enumerate(some, done + 1):
            if len(words) > MOST_WORDS:
                raise DataError(
                    f"sentence {number} has {len(words):,} words; a parser reads {MOST_WORDS}: "
                    "give it a sentence at a time"
                )
        sources = [tokenizer.framing.one(ids) for ids in source_ids(tokenizer, some)]
        found = search_targets(runner, sources, config, done)
        for words, best in zip(some, found, strict=True):
            tree, whole = assemble(tokenizer.tokens_of(best.ids), words)
            yield Parsed(words, tree, whole and best.reason == "stop", best.score)
        done += len(some)


def brackets(tree: Tree, counted: Sequence[bool]) -> Counter[tuple[str, int, int]]:
    """The brackets of a tree: (label, first word, end), of the words that are counted."""
    found: Counter[tuple[str, int, int]] = Counter()
    words = iter(counted)

    def end_of(node: Tree, start: int) -> int:
        if node.word is not None:
            return start + next(words)
        end = start
        for child in node.children:
            end = end_of(child, end)
        label = category(node.label)
        if end > start and label != TOP:
            found[SAME.get(label, label), start, end] += 1
        return end

    end_of(tree, 0)
    return found


def evaluate_parses(
    right: Sequence[Tree], parsed: Sequence[Tree], well_formed: Sequence[bool]
) -> dict[str, Any]:
    """Figures of a parser's trees against the treebank's: `f1`,
    `precision`, `recall` and `exact` (sentences without an error) in percent, and the fraction that
    needed no repair.

    Raises:
        DataError: trees over other words.
    """
    rows = []
    for number, (gold, found) in enumerate(zip(right, parsed, strict=True), start=1):
        leaves = gold.leaves()
        if len(leaves) != len(found.leaves()):
            raise DataError(
                f"sentence {number} has {len(leaves)} words and its tree {len(found.leaves())}"
            )
        counted = [leaf.label not in PUNCTUATION for leaf in leaves]
        ours, theirs = brackets(found, counted), brackets(gold, counted)
        rows.append(((ours & theirs).total(), ours.total(), theirs.total()))
    hits, matched, wanted = (sum(row[n] for row in rows) for n in range(3))
    exact = sum(row[0] == row[1] == row[2] for row in rows)
    percent = {
        "f1": 200 * hits / max(1, matched + wanted),
        "precision": 100 * hits / max(1, matched),
        "recall": 100 * hits / max(1, wanted),
        "exact": 100 * exact / max(1, len(rows)),
    }
    return {
        "sentences": len(rows),
        **{name: round(value, 2) for name, value in percent.items()},
        "well_formed": sum(well_formed) / max(1, len(well_formed)),
    }
