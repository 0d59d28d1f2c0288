"""Labelled bracketing F1 of parsers, by the rules of evalb (Sekine and Collins, COLLINS.prm).

A bracket is a label with the words it spans. Labels count without functions and indices; ADVP and
PRT are one; TOP and empty elements are left out, and punctuation is taken out of the words (tags
`, : `` '' .`), so that it moves no span. Precision and recall are over all brackets of all
sentences. Our trees have no tags, so what is punctuation is said by the right tree's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bertwright.errors import DataError
from bertwright.text.treebank.trees import TOP, Tree, category

PUNCTUATION = {",", ":", "``", "''", "."}
SAME = {"PRT": "ADVP"}


def brackets(tree: Tree, counted: Sequence[bool]) -> Counter[tuple[str, int, int]]:
    """The brackets of a tree: (label, first word, end), of the words that are counted."""
    found: Counter[tuple[str, int, int]] = Counter()
    word = position = 0

    def visit(node: Tree) -> None:
        nonlocal word, position
        if node.word is not None:
            position += counted[word]
            word += 1
            return
        start = position
        for child in node.children:
            visit(child)
        label = category(node.label)
        if position > start and label != TOP:
            found[SAME.get(label, label), start, position] += 1

    visit(tree)
    return found


def evaluate_parses(
    right: Sequence[Tree], parsed: Sequence[Tree], well_formed: Sequence[bool]
) -> dict[str, Any]:
    """Figures of trees over the same sentences.

    Args:
        right: the treebank's, without empty elements.
        parsed: a parser's.
        well_formed: of each, whether it needed no repair.

    Returns:
        `f1`, `precision`, `recall` and `exact` (sentences without an error) in percent, and
        `well_formed`, the fraction.

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
        rows.append((sum((ours & theirs).values()), ours.total(), theirs.total()))
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
