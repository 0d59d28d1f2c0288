"""Parse sentences into constituency trees, with a translation model that was trained on trees.

Vinyals et al. 2015; Vaswani et al. 2017, section 6.3: beam search over linearized trees, where a
target has at most 300 tokens more than its source, and the length penalty is 0.3. The result is
repaired to a tree over the sentence's words (`text/treebank/trees.py`).

Labelled bracketing F1 follows the rules of evalb (Sekine and Collins, COLLINS.prm). A bracket is a
label with the words it spans. Labels are compared without functions and indices; ADVP and PRT are
the same; TOP and empty elements are left out. Punctuation (tags `, : `` '' .`) is removed from the
words, so that it changes no span. Precision and recall are over all brackets of all sentences. The
parsed trees have no tags, so the gold tree's tags say what is punctuation.
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
from bertwright.inference.translation.translate import target_search
from bertwright.text.treebank.trees import MOST_WORDS, TOP, Tree, assemble, category

LENGTH_PENALTY = 0.3
PUNCTUATION = {",", ":", "``", "''", "."}
SAME = {"PRT": "ADVP"}


@dataclass(frozen=True)
class Parsed:
    """A sentence and its tree."""

    words: list[str]
    tree: Tree
    """The tree below TOP; every tag is XX."""
    well_formed: bool
    """Whether the model's output was a tree over the words without repair."""
    score: float
    """The log-probability divided by the length to the power of the length penalty."""


def require_parser(runner: ModelRunner) -> None:
    """Raise DataError if a model does not generate trees."""
    runner.require("translation", "parsing")
    if not writes_trees(runner.tokenizer):
        raise DataError(
            f"{runner.name} translates, but its vocabulary has no brackets: expected a model that "
            "was trained on the shards of bertwright data trees"
        )


def reads(runner: ModelRunner, words: Sequence[str]) -> bool:
    """Return whether a sentence is short enough for a parser, in words and tokens."""
    if len(words) > MOST_WORDS:
        return False
    (ids,) = source_ids(runner.tokenizer, [words])
    longest = runner.spec.max_length
    return longest is None or len(runner.tokenizer.framing.one(ids)) <= longest


def parse(
    runner: ModelRunner, groups: Iterable[Sequence[Sequence[str]]], beam: int = 4
) -> Iterator[Parsed]:
    """Parse sentences of words in order; those of a group (of `translate.TEXTS`) are parsed
    together.

    The tree of a sentence without words is empty.

    Raises:
        DataError: the model is not a parser, or a sentence is longer than the model reads; the
            message names its number.
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
        targets = target_search(runner).search(sources, config, done)
        for words, best in zip(some, targets, strict=True):
            tree, whole = assemble(tokenizer.tokens_of(best.ids), words)
            yield Parsed(words, tree, whole and best.reason == "stop", best.score)
        done += len(some)


def brackets(tree: Tree, counted: Sequence[bool]) -> Counter[tuple[str, int, int]]:
    """Return the brackets of a tree: (label, first word, end), counting only the words that
    `counted` marks.
    """
    spans: Counter[tuple[str, int, int]] = Counter()
    words = iter(counted)

    def end_of(node: Tree, start: int) -> int:
        if node.word is not None:
            return start + next(words)
        end = start
        for child in node.children:
            end = end_of(child, end)
        label = category(node.label)
        if end > start and label != TOP:
            spans[SAME.get(label, label), start, end] += 1
        return end

    end_of(tree, 0)
    return spans


def evaluate_parses(
    right: Sequence[Tree], parsed: Sequence[Tree], well_formed: Sequence[bool]
) -> dict[str, Any]:
    """Compare a parser's trees with those of a treebank.

    Returns:
        `sentences`, their number; `f1`, `precision` and `recall` of the brackets; and the fractions
        of sentences without an error (`exact`) and of trees that needed no repair (`well_formed`).
    """
    rows = []
    for number, (gold, tree) in enumerate(zip(right, parsed, strict=True), start=1):
        leaves = gold.leaves()
        if len(leaves) != len(tree.leaves()):
            raise DataError(
                f"sentence {number} has {len(leaves)} words and its tree {len(tree.leaves())}"
            )
        counted = [leaf.label not in PUNCTUATION for leaf in leaves]
        ours, theirs = brackets(tree, counted), brackets(gold, counted)
        rows.append(((ours & theirs).total(), ours.total(), theirs.total()))
    hits, matched, wanted = (sum(row[n] for row in rows) for n in range(3))
    exact = sum(row[0] == row[1] == row[2] for row in rows)
    return {
        "sentences": len(rows),
        "f1": 2 * hits / max(1, matched + wanted),
        "precision": hits / max(1, matched),
        "recall": hits / max(1, wanted),
        "exact": exact / max(1, len(rows)),
        "well_formed": sum(well_formed) / max(1, len(well_formed)),
    }
