"""Trees as sequences and back: nothing is lost, and whatever a model writes becomes a tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.errors import DataError
from bertwright.inference.translation.parse import evaluate_parses
from bertwright.text.treebank.dependencies import dependencies_of
from bertwright.text.treebank.trees import (
    TAG,
    TOP,
    Tree,
    assemble,
    linearize,
    parse_trees,
    plain_word,
)

LABELS = ["S", "NP", "VP"]
LEAF = st.sampled_from(["a", "dog", "-LRB-"]).map(lambda word: Tree(TAG, word=word))
TREES = st.recursive(
    LEAF,
    lambda inner: st.builds(
        Tree, st.sampled_from(LABELS), st.lists(inner, min_size=1, max_size=4).map(tuple), st.none()
    ),
    max_leaves=12,
).filter(lambda tree: tree.word is None)
TOKENS = st.lists(
    st.sampled_from(["(S", ")S", "(NP", ")NP", "[1]", "[2]", "[3]", "[9]"]), max_size=14
)


@given(TREES)
def test_a_tree_comes_back(tree: Tree) -> None:
    tokens = linearize(Tree(TOP, (tree,)))
    assert assemble(tokens, tree.words()) == (Tree(TOP, (tree,)), True)


@given(TOKENS, st.lists(st.sampled_from("xyz"), min_size=1, max_size=4))
def test_any_sequence_becomes_a_tree_over_its_words(tokens: list[str], words: list[str]) -> None:
    tree, whole = assemble(tokens, words)
    assert tree.label == TOP
    assert tree.words() == words
    (again,) = parse_trees([str(tree)])
    assert again == tree
    if whole:
        (only,) = tree.children
        assert linearize(only) == tokens


@pytest.mark.parametrize(
    ("tokens", "tree"),
    [
        ("(S (NP [1] )NP [2] )S", "(TOP (S (NP (XX a)) (XX b)))"),
        ("(S (NP [1] [2] )S", "(TOP (S (NP (XX a) (XX b))))"),
        ("(S (NP [1] )NP )VP [2] )S", "(TOP (S (NP (XX a)) (XX b)))"),
        ("(S (NP [1] )NP", "(TOP (S (NP (XX a)) (XX b)))"),
        ("(S (NP [1] )NP )S", "(TOP (S (NP (XX a)) (XX b)))"),
        ("(S (NP [2] )NP )S", "(TOP (S (NP (XX a) (XX b))))"),
        ("(S [1] [2] [3] )S", "(TOP (S (XX a) (XX b)))"),
        ("(S [1] [1] [2] )S", "(TOP (S (XX a) (XX b)))"),
        ("(S [1] (NP )NP [2] )S", "(TOP (S (XX a) (XX b)))"),
        ("", "(TOP (XX a) (XX b))"),
    ],
)
def test_repair(tokens: str, tree: str) -> None:
    found, whole = assemble(tokens.split(), ["a", "b"])
    assert str(found) == tree
    assert whole == (tokens == "(S (NP [1] )NP [2] )S")


def test_what_is_far_too_deep_is_a_tree_still() -> None:
    tree, whole = assemble(["(NP"] * 3000 + ["[1]"], ["a"])
    assert not whole
    assert tree.words() == ["a"]
    (again,) = parse_trees([str(tree)])
    assert str(again) == str(tree)
    assert linearize(again)[-1] == ")NP"
    assert evaluate_parses([again], [tree], [whole])["f1"] == 1
    assert dependencies_of(again).words == ["a"]
    with pytest.raises(DataError, match="250 brackets"):
        list(parse_trees(["(S " * 300]))


def test_functions_and_indices_are_left_out() -> None:
    (tree,) = parse_trees(["( (S (NP-SBJ-1 (NNS dogs)) (VP=2 (VBP bark))))"])
    assert linearize(tree) == ["(S", "(NP", "[1]", ")NP", "(VP", "[2]", ")VP", ")S"]


def test_words_are_as_in_text() -> None:
    words = "-LRB- `` 1\\/2 dog"
    assert [*map(plain_word, words.split())] == ["(", '"', "1/2", "dog"]
