"""Bracketed trees: what is read, whose head is whose, what is wrong on which line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bertwright.errors import DataError
from bertwright.text.treebank.dependencies import dependencies_of
from bertwright.text.treebank.trees import parse_trees, read_trees

DOG = (
    "(S (NP-SBJ-1 (DT The) (NN dog)) (VP (VBZ chases) (NP (-NONE- *T*-1)) "
    "(NP (PRP$ its) (NN tail))) (. .))"
)


def test_a_tree_is_written_as_it_was_read_without_empty_elements() -> None:
    (tree,) = parse_trees([DOG, "(S (NP (-NONE- *)))"])
    assert str(tree) == DOG.replace("(NP (-NONE- *T*-1)) ", "")
    assert tree.words() == ["The", "dog", "chases", "its", "tail", "."]


def test_trees_go_over_lines_and_have_a_top(tmp_path: Path) -> None:
    file = tmp_path / "a.mrg"
    file.write_text("( (S\n  (NP (NN it)))\n)\n\n((FRAG (UH yes)))((X (SYM -)))", "utf-8")
    (tmp_path / "b.txt").write_text("no tree", "utf-8")
    size, seen = file.stat().st_size, []
    trees = read_trees(tmp_path, lambda done, total: seen.append((done, total)))
    assert [str(tree) for tree in trees] == [
        "(TOP (S (NP (NN it))))",
        "(TOP (FRAG (UH yes)))",
        "(TOP (X (SYM -)))",
    ]
    assert seen[-1] == (size, size)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("(S (NN a))\n\n(S (NP (NN b))\n", 3, "1 ')' missing"),
        ("(S (NN a)))\n", 1, "no bracket is open"),
        ("(S (NN a))\nword (S (NN b))", 2, "'word'"),
        ("(S (NN a)\n (NN b c))", 2, "2 words and 0 phrases"),
        ("(S)", 1, "0 words and 0 phrases"),
        ("(S (NN a) b)", 1, "1 words and 1 phrases"),
    ],
)
def test_brackets_that_do_not_match(text: str, line: int, what: str) -> None:
    with pytest.raises(DataError) as caught:
        list(parse_trees(text.splitlines(), "file.mrg"))
    assert f"line {line} of file.mrg" in str(caught.value)
    assert what in str(caught.value)


def test_heads_of_a_tree() -> None:
    (tree,) = parse_trees([DOG])
    found = dependencies_of(tree)
    assert found.words == ["The", "dog", "chases", "its", "tail", "."]
    assert found.heads == [1, 2, -1, 4, 2, -1]
    assert found.relations[:5] == ["DT of NP", "NP-SBJ of S", "", "PRP$ of NP", "NP of VP"]


def test_empty_trees_and_sgml_are_left_out_and_counted() -> None:
    lines = ["<DOC id=1>", "<S ID=1>", "(S (NN dogs))", "</S>", "(())", "( (S (NN cats)) )", "( )"]
    left_out: Counter[str] = Counter()
    found = [str(tree) for tree in parse_trees(lines, "x", left_out)]
    assert found == ["(S (NN dogs))", "(TOP (S (NN cats)))"]
    assert left_out == {"lines of SGML": 3, "empty trees": 2}
    with pytest.raises(DataError, match="holds 0 words"):
        list(parse_trees(["(S (NP))"]))
