"""Bracketed trees, as the Penn Treebank writes them: `(S (NP (DT the) (NN dog)) (VP (VBZ barks)))`.

A tree may go over several lines. The brackets without a label around each tree of the Treebank are
the label TOP here, as in its own tools. Empty elements (`-NONE-`) are not read, nor phrases that
hold nothing else.

As sequences of tokens (Vinyals et al. 2015, Grammar as a foreign language) they are brackets with
their label, functions left out, and a token for each word: `(S (NP [1] [2] )NP
(VP [3] )VP )S`. The paper writes every word as `XX`; ours are numbered, and the number stands
before the word in the source too, so that the decoder always knows which word is next. A sequence
of a model need not be a tree: `assemble` repairs it.
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
from bertwright.text.corpus.files import decoded_lines, open_with_position, size_on_disk

TOP = "TOP"
DEEPEST = 250
"""Brackets within each other: more are no tree of a sentence, and too many to go through."""
SUFFIXES = (".tree", ".trees", ".mrg", ".ptb", ".psd")
"""Files of a folder that are read."""
TAG = "XX"
"""That of every word of a parse."""
MOST_WORDS = 250
"""Words of a sentence."""
_ESCAPED = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "``": '"', "''": '"',
}  # fmt: skip
_SGML = re.compile(r"\s*</?[A-Za-z][^<>]*>\s*")
_TOKEN = re.compile(r"\([ \t]*[^() \t\r\n\f\v]*|\)|[^() \t\r\n\f\v]+")
"""An opened bracket with its label, a closed one, a word. Spaces beyond ASCII (a thin space in a
number) are part of a word."""


class Tree(NamedTuple):
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
        """In brackets, on one line; those of a word are written -LRB- and -RRB-."""
        word = (self.word or "").replace("(", "-LRB-").replace(")", "-RRB-")
        parts = map(str, self.children) if self.word is None else [word]
        return f"({' '.join([self.label, *parts])})"


def category(label: str) -> str:
    """A label without functions and indices: NP of `NP-SBJ-1` and `NP=2`."""
    return label if label[:1] == "-" else label.split("-")[0].split("=")[0]


def read_trees(
    path: str | Path, on_progress: OnProgress = silent, left_out: Counter[str] | None = None
) -> Iterator[Tree]:
    """The trees of a file, also compressed, or of all files of a folder that have such a name.

    `left_out` counts empty trees and lines of SGML, as `parse_trees` does.

    Raises:
        DataError: no such file, no UTF-8, or brackets that do not match; names the line.
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
    """The trees of some lines. Trees of nothing, `(())`, and lines of SGML between trees, as
    `<S ID=1>`, are left out, and `left_out` counts them.

    Raises:
        DataError: brackets that do not match or are too deep, a word outside of them, a phrase
            without parts.
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
    """A tag with one word, or a phrase of trees; None of an empty element, or of nothing else."""
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
    """The token of a word by its number from 0."""
    return f"[{word + 1}]"


def plain_word(word: str) -> str:
    """A word as in text: the Penn Treebank writes brackets as -LRB-, quotes as `` and ''."""
    return _ESCAPED.get(word, word.replace("\\/", "/").replace("\\*", "*"))


def linearize(tree: Tree) -> list[str]:
    """A tree as tokens; a TOP around it is left out."""
    found: list[str] = []
    words = count()

    def visit(node: Tree) -> None:
        if node.word is not None:
            found.append(leaf_token(next(words)))
            return
        label = category(node.label)
        found.append(f"({label}")
        for child in node.children:
            visit(child)
        found.append(f"){label}")

    for node in tree.children if tree.label == TOP else [tree]:
        visit(node)
    return found


def assemble(tokens: Iterable[str], words: Sequence[str]) -> tuple[Tree, bool]:
    """The tree of a sequence over its words, below TOP, and whether it was one without repair.

    Repair: a bracket that closes an outer phrase closes those inside it too, one that closes none
    is left out, and those that are open at the end are closed there. Words that the sequence lacks
    are put before the next that it has, or at the end of the outermost phrase; words that it has
    too often, phrases without words and brackets that are too deep are left out.
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
    alone = not words or (len(tree.children) == 1 and tree.children[0].word is None)
    return tree, alone and linearize(tree) == tokens
