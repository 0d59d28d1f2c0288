"""Labelled F1 by hand, with the rules of evalb."""

from __future__ import annotations

import pytest

from bertwright.errors import DataError
from bertwright.inference.translation.parse import evaluate_parses
from bertwright.text.treebank.trees import Tree, parse_trees

GOLD = (
    "(TOP (S (NP-SBJ (DT the) (NN cat)) (VP (VBD sat) (PRT (RP down)) (, ,) (NP (NN today)))"
    " (. .)))"
)


def tree(text: str) -> Tree:
    (found,) = parse_trees([text])
    return found


def figures(found: str, gold: str = GOLD) -> dict[str, float]:
    return evaluate_parses([tree(gold)], [tree(found)], [True])


def test_the_same_tree_without_tags_functions_and_with_an_equal_label() -> None:
    found = (
        "(TOP (S (NP (XX the) (XX cat)) (VP (XX sat) (ADVP (XX down)) (XX ,) (NP (XX today)))"
        " (XX .)))"
    )
    assert figures(found)["f1"] == figures(found)["exact"] == 1


def test_punctuation_moves_no_span() -> None:
    found = (
        "(TOP (S (NP (XX the) (XX cat)) (VP (VP (XX sat) (PRT (XX down)) (XX ,)) (NP (XX today))"
        " (XX .))))"
    )
    # right: S NP VP PRT NP; found: the same and VP(2, 4), which is not right
    measured = figures(found)
    assert measured["recall"] == 1
    assert measured["precision"] == pytest.approx(5 / 6)
    assert measured["f1"] == pytest.approx(10 / 11)
    assert measured["exact"] == 0


def test_a_bracket_counts_as_often_as_it_is_there() -> None:
    assert figures("(S (NP (NP (X a))))", "(S (NP (X a)))")["precision"] == pytest.approx(2 / 3)
    assert figures("(S (NP (X a)))", "(S (NP (NP (X a))))")["recall"] == pytest.approx(2 / 3)


def test_figures_are_over_all_brackets() -> None:
    long = f"(S {'(NP (NN a)) ' * 41})"
    wrong = long.replace("NP", "VP")
    measured = evaluate_parses([tree(GOLD), tree(long)], [tree(GOLD), tree(wrong)], [True, False])
    assert measured["f1"] == pytest.approx(6 / 47)
    assert measured["well_formed"] == 0.5


def test_other_words_are_refused() -> None:
    with pytest.raises(DataError, match="sentence 1 has 2 words"):
        figures("(S (X a))", "(S (X a) (X b))")
