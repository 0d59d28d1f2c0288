"""Bracketed trees in the Penn Treebank's format: `(S (NP (DT the) (NN dog)) (VP (VBZ barks)))`.

A tree may take several lines. The Treebank has brackets without a label around each tree; here they
get the label TOP, as in its own tools. Empty elements (`-NONE-`), and phrases that contain nothing
else, are skipped.

For a sequence model (Vinyals et al. 2015, Grammar as a foreign language) a tree is linearized to
tokens: brackets with their label, without functions, and a token for each word: `(S (NP [1] [2] )NP
(VP [3] )VP )S`. The paper writes every word as `XX`. Here words are numbered, and the number
precedes the word in the source too, so that the decoder always knows which word is next. The output
of a model may not be a tree; `assemble` repairs it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from bertwright.errors import DataError
from bertwright.progress import OnProgress, silent
from bertwright.rows.lines import decoded_lines
from bertwright.rows.open import open_with_position, size_on_disk

TOP = "TOP"
DEEPEST = 250
"""The deepest nesting of brackets. A deeper one is not the tree of a sentence, and could overflow
the recursion.
"""
SUFFIXES = (".tree", ".trees", ".mrg", ".ptb", ".psd")
"""The suffixes of files that are read in a folder."""
TAG = "XX"
"""The tag of every word of a parse."""
MOST_WORDS = 250
"""The most words of a sentence."""
_ESCAPED = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "``": '"', "''": '"',
}  # fmt: skip
_SGML = re.compile(r"\s*</?[A-Za-z][^<>]*>\s*")
_TOKEN = re.compile(r"\([ \t]*[^() \t\r\n\f\v]*|\)|[^() \t\r\n\f\v]+")
"""An opening bracket with its label, a closing bracket, or a word. Spaces beyond ASCII (a thin
space in a number) are part of a word.
"""


class Tree(NamedTuple):
    """A phrase with its children, or a tag with its word."""

    label: str
    children: tuple[Tree, ...] = ()
    word: str | None = None
    """The word of a tag; None for a phrase."""

    def leaves(self) -> list[Tree]:
        """Return the tags with their words, in order."""
        if self.word is not None:
            return [self]
        return [leaf for child in self.children for leaf in child.leaves()]

    def words(self) -> list[str]:
        """Return the words, in order."""
        return [str(leaf.word) for leaf in self.leaves()]

    def __str__(self) -> str:
        """Return the tree in brackets on one line; brackets in a word are written -LRB- and
        -RRB-.
        """
        word = (self.word or "").replace("(", "-LRB-").replace(")", "-RRB-")
        parts = map(str, self.children) if self.word is None else [word]
        return f"({' '.join([self.label, *parts])})"


def category(label: str) -> str:
    """Return a label without functions and indices: NP for `NP-SBJ-1` and `NP=2`."""
    return label if label[:1] == "-" else label.split("-")[0].split("=")[0]


def read_trees(
    path: str | Path, on_progress: OnProgress = silent, left_out: Counter[str] | None = None
) -> Iterator[Tree]:
    """Yield the trees of a file, which may be compressed, or of all files of a folder with known
    suffixes.

    `left_out` counts empty trees and lines of SGML, as `parse_trees` does.

    Raises:
        DataError: there is no such file, it is not UTF-8, or brackets do not match; the message
            names the line.
    """
    path, files = Path(path), [Path(path)]
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.suffix in SUFFIXES)
        if not files:
            raise DataError(f"{path} has no file of trees ({', '.join(SUFFIXES)})")
    elif not path.is_file():
        raise DataError(f"no file {path}; expected bracketed trees")
    done, total = 0, size_on_disk(files)
    for file in files:
        lines, position = open_with_position(file)
        with lines:
            for tree in parse_trees(decoded_lines(lines, file), str(file), left_out):
                yield tree
                on_progress(done + position(), total)
            done += position()


def parse_trees(
    lines: Iterable[str], name: str = "the text", left_out: Counter[str] | None = None
) -> Iterator[Tree]:
    """Yield the trees of some lines.

    Empty trees, `(())`, and lines of SGML between trees, such as `<S ID=1>`, are skipped and
    counted in `left_out`.

    Raises:
        DataError: brackets do not match or are too deep, a word is outside of them, or a phrase has
            no children.
    """
    open_: list[tuple[str, list[Tree | str | None]]] = []
    begin = number = 0
    left_out = Counter() if left_out is None else left_out
    for number, line in enumerate(lines, start=1):
        if not open_ and _SGML.fullmatch(line):
            left_out["lines of SGML"] += 1
            continue
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
                raise DataError(
                    f"line {number} of {name}: no bracket is open before {token!r}; expected a "
                    "tree, as (S (NP (PRP it)) (VP (VBZ works)))"
                )
            elif token != ")":
                open_[-1][1].append(token)
            else:
                tree = _tree(*open_.pop(), f"line {number} of {name}")
                if open_:
                    open_[-1][1].append(tree)
                elif tree is not None:
                    yield tree
                else:
                    left_out["empty trees"] += 1
    if open_:
        raise DataError(
            f"line {begin} of {name}: the tree that begins here is not closed at the end of the "
            f"text (line {number}): {len(open_)} ')' missing"
        )


def _tree(label: str, parts: list[Tree | str | None], where: str) -> Tree | None:
    """Return a tag with one word, or a phrase of trees; None for an empty element, or a phrase of
    nothing else.
    """
    if len(parts) == 1 and isinstance(parts[0], str):
        return None if label == "-NONE-" else Tree(label, word=parts[0])
    words = sum(isinstance(part, str) for part in parts)
    if not parts and label == TOP:
        return None
    if words or not parts:
        raise DataError(
            f"{where}: ({label} ...) holds {words} words and {len(parts) - words} phrases; "
            "expected one word, or phrases alone"
        )
    trees = tuple(part for part in parts if isinstance(part, Tree))
    return Tree(label, trees) if trees else None


def leaf_token(word: int) -> str:
    """Return the token of a word by its index from 0."""
    return f"[{word + 1}]"


def plain_word(word: str) -> str:
    """Return a word as in plain text. The Penn Treebank writes brackets as -LRB-, quotes as `` and
    ''.
    """
    return _ESCAPED.get(word, word.replace("\\/", "/").replace("\\*", "*"))


def linearize(tree: Tree) -> list[str]:
    """Return a tree as tokens, without the TOP around it."""
    tokens: list[str] = []
    words = count()

    def visit(node: Tree) -> None:
        if node.word is not None:
            tokens.append(leaf_token(next(words)))
            return
        label = category(node.label)
        tokens.append(f"({label}")
        for child in node.children:
            visit(child)
        tokens.append(f"){label}")

    for node in tree.children if tree.label == TOP else [tree]:
        visit(node)
    return tokens


def assemble(tokens: Iterable[str], words: Sequence[str]) -> tuple[Tree, bool]:
    """Return the tree of a token sequence over its words, below TOP, and whether it needed no
    repair.

    A bracket that closes an outer phrase closes those inside it too; one that closes nothing is
    dropped; those still open at the end are closed there. Words that the sequence lacks are
    inserted before the next word it has, or at the end of the outermost phrase. Repeated words,
    phrases without words, and brackets that are too deep are dropped.
    """
    tokens = list(tokens)
    labels: list[str] = [TOP]
    parts: list[list[Tree]] = [[]]
    done = 0

    def close() -> None:
        label, children = labels.pop(), tuple(parts.pop())
        if children:
            parts[-1].append(Tree(label, children))

    def put(stop: int) -> None:
        nonlocal done
        parts[-1].extend(Tree(TAG, word=word) for word in words[done:stop])
        done = max(done, stop)

    for token in tokens:
        if token[0] == "(":
            if len(labels) < DEEPEST - 1:  # a word has a bracket too
                labels.append(token[1:])
                parts.append([])
        elif token[0] != ")":
            put(min(int(token[1:-1]), len(words)))
        elif token[1:] in labels[1:]:
            while labels[-1] != token[1:]:
                close()
            close()
    if done < len(words):
        while len(labels) > 2:
            close()
        if len(labels) == 1 and parts[0] and parts[0][-1].word is None:
            last = parts[0].pop()
            labels.append(last.label)
            parts.append([*last.children])
        put(len(words))
    while len(labels) > 1:
        close()
    tree = Tree(TOP, tuple(parts[0]))
    has_one_root = not words or (len(tree.children) == 1 and tree.children[0].word is None)
    return tree, has_one_root and linearize(tree) == tokens
