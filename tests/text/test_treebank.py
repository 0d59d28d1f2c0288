"""Bracketed trees and CoNLL-U: what is read, whose head is whose, what is wrong on which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertwright.errors import DataError
from bertwright.text.treebank.dependencies import dependencies_of, read_dependencies
from bertwright.text.treebank.trees import parse_trees, pruned, read_trees

DOG = (
    "(S (NP-SBJ-1 (DT The) (NN dog)) (VP (VBZ chases) (NP (-NONE- *T*-1)) "
    "(NP (PRP$ its) (NN tail))) (. .))"
)


def test_a_tree_is_written_as_it_was_read() -> None:
    (tree,) = parse_trees([DOG])
    assert str(tree) == DOG
    assert tree.words() == ["The", "dog", "chases", "*T*-1", "its", "tail", "."]


def test_trees_go_over_lines_and_have_a_top(tmp_path: Path) -> None:
    file = tmp_path / "a.mrg"
    file.write_text("( (S\n  (NP (NN it)))\n)\n\n((FRAG (UH yes)))((X (SYM -)))", "utf-8")
    (tmp_path / "b.txt").write_text("no tree", "utf-8")
    assert [str(tree) for tree in read_trees(tmp_path)] == [
        "(TOP (S (NP (NN it))))",
        "(TOP (FRAG (UH yes)))",
        "(TOP (X (SYM -)))",
    ]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("(S (NN a))\n\n(S (NP (NN b))\n", 3, "1 ')' missing"),
        ("(S (NN a)))\n", 1, "closed that was not opened"),
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
    bare = pruned(tree)
    assert bare is not None
    found = dependencies_of(bare)
    assert found.words == ["The", "dog", "chases", "its", "tail", "."]
    assert found.heads == [1, 2, -1, 4, 2, -1]
    assert found.relations[:5] == ["DT of NP", "NP-SBJ of S", "", "PRP$ of NP", "NP of VP"]


CONLLU = """# text = It works
1-2\tItworks\t_\t_\t_\t_\t_\t_\t_\t_
1\tIt\tit\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\tworks\twork\tVERB\tVBZ\t_\t0\troot\t_\t_
2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_
3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""


def test_conllu(tmp_path: Path) -> None:
    file = tmp_path / "a.conllu"
    file.write_text(CONLLU, "utf-8")
    first, second = read_dependencies(file)
    assert (first.words, first.heads) == (["It", "works", "."], [1, -1, -1])
    assert first.relations[0] == "nsubj"
    assert second.words == ["Yes"]


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("1\tIt\tit", "3 columns"),
        ("1\tIt\tit\tPRON\tPRP\t_\tx\tnsubj\t_\t_", "10 columns"),
        ("It works", "no line of CoNLL-U"),
        ("1\tIt\tit\tPRON\tPRP\t_\t7\tnsubj\t_\t_", "a head of number 7"),
    ],
)
def test_broken_conllu(tmp_path: Path, row: str, what: str) -> None:
    file = tmp_path / "a.conllu"
    file.write_text(f"# text\n{row}\n\n", "utf-8")
    with pytest.raises(DataError, match=r"line \d of") as caught:
        list(read_dependencies(file))
    assert what in str(caught.value)
