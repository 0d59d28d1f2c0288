"""Bracketed trees, as the Penn Treebank writes them: `(S (NP (DT the) (NN dog)) (VP (VBZ barks)))`.

A tree may go over several lines. The brackets without a label around each tree of the Treebank are
the label TOP here, as in its own tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bertwright.errors import DataError
from bertwright.text.corpus.files import decoded_lines, open_bytes

TOP = "TOP"
DEEPEST = 250
"""Brackets within each other: more are no tree of a sentence, and too many to go through."""
SUFFIXES = (".tree", ".trees", ".mrg", ".ptb", ".psd")
"""Files of a folder that are read."""
_TOKEN = re.compile(r"\([ \t]*[^() \t\r\n\f\v]*|\)|[^() \t\r\n\f\v]+")
"""An opened bracket with its label, a closed one, a word. Spaces beyond ASCII (a thin space in a
number) are part of a word."""


@dataclass(frozen=True)
class Tree:
    """A phrase with its parts, or a tag with its word."""

    label: str
    children: tuple[Tree, ...] = ()
    word: str | None = None
    """Of a tag; None of a phrase."""

    def leaves(self) -> list[Tree]:
        """The tags with their words, in order."""
        if self.word is not None:
            return [self]
        return [leaf for child in self.children for leaf in child.leaves()]

    def words(self) -> list[str]:
        """The words, in order."""
        return [str(leaf.word) for leaf in self.leaves()]

    def __str__(self) -> str:
        """In brackets, on one line."""
        found: list[str] = []
        stack: list[Tree | str] = [self]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                found.append(node)
                continue
            found.append(f" ({node.label}" if node.word is None else f" ({node.label} {node.word}")
            stack.append(")")
            stack.extend(reversed(node.children))
        return "".join(found)[1:]


def pruned(tree: Tree) -> Tree | None:
    """Without empty elements (`-NONE-`) and the phrases that hold nothing else."""
    if tree.word is not None:
        return None if tree.label == "-NONE-" else tree
    children = tuple(each for each in map(pruned, tree.children) if each is not None)
    return Tree(tree.label, children) if children else None


def category(label: str) -> str:
    """A label without functions and indices: NP of `NP-SBJ-1` and `NP=2`."""
    return label if label[:1] == "-" else label.split("-")[0].split("=")[0]


def read_trees(path: str | Path) -> Iterator[Tree]:
    """The trees of a file, also compressed, or of all files of a folder that have such a name.

    Raises:
        DataError: no such file, no UTF-8, or brackets that do not match; names the line.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.suffix in SUFFIXES)
        if not files:
            raise DataError(f"{path} has no file of trees ({', '.join(SUFFIXES)})")
        for file in files:
            yield from read_trees(file)
        return
    if not path.is_file():
        raise DataError(f"no file {path}; expected bracketed trees")
    with open_bytes(path) as lines:
        yield from parse_trees(decoded_lines(lines, path), str(path))


def parse_trees(lines: Iterable[str], name: str = "the text") -> Iterator[Tree]:
    """The trees of some lines.

    Raises:
        DataError: brackets that do not match or are too deep, a word outside of them, a phrase
            without parts.
    """
    open_: list[tuple[str, list[Tree | str]]] = []
    begin = number = 0
    for number, line in enumerate(lines, start=1):
        for token in _TOKEN.findall(line):
            if token[0] == "(":
                if not open_:
                    begin = number
                open_.append((token[1:].strip(" \t") or TOP, []))
                if len(open_) > DEEPEST:
                    raise DataError(
                        f"line {number} of {name}: more than {DEEPEST} brackets within each other"
                    )
            elif not open_:
                what = "a bracket is closed that was not opened" if token == ")" else "no bracket"
                raise DataError(
                    f"line {number} of {name}: {what} before {token!r}; expected a tree, as "
                    "(S (NP (PRP it)) (VP (VBZ works)))"
                )
            elif token != ")":
                open_[-1][1].append(token)
            else:
                tree = _tree(*open_.pop(), f"line {number} of {name}")
                if open_:
                    open_[-1][1].append(tree)
                else:
                    yield tree
    if open_:
        raise DataError(
            f"line {begin} of {name}: the tree that begins here is not closed at the end of the "
            f"text (line {number}): {len(open_)} ')' missing"
        )


def _tree(label: str, parts: list[Tree | str], where: str) -> Tree:
    """A tag with one word, or a phrase of trees."""
    trees = tuple(part for part in parts if isinstance(part, Tree))
    if trees and len(trees) == len(parts):
        return Tree(label, trees)
    if len(parts) == 1 and isinstance(parts[0], str):
        return Tree(label, word=parts[0])
    raise DataError(
        f"{where}: ({label} ...) holds {len(parts) - len(trees)} words and {len(trees)} phrases; "
        "expected one word, or phrases alone"
    )
