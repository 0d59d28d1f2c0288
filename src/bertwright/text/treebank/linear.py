"""Trees as sequences of tokens and back (Vinyals et al. 2015, Grammar as a foreign language).

`(S (NP [1] [2] )NP (VP [3] )VP )S`: brackets with their label, functions and empty elements left
out, and a token for each word. The paper writes every word as `XX`; ours are numbered, and the
number stands before the word in the source too, so that the decoder always knows which word is
next. A sequence of a model need not be a tree: `assemble` repairs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from bertwright.text.treebank.trees import DEEPEST, TOP, Tree, category

TAG = "XX"
"""That of every word of a parse."""
MOST_WORDS = 250
"""Words of a sentence."""


def leaf_token(word: int) -> str:
    """The token of a word by its number from 0."""
    return f"[{word + 1}]"


def plain_word(word: str) -> str:
    """A word as in text: the Penn Treebank writes brackets as -LRB-, quotes as `` and ''."""
    return _ESCAPED.get(word, word.replace("\\/", "/").replace("\\*", "*"))


_ESCAPED = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "``": '"', "''": '"',
}  # fmt: skip


def linearize(tree: Tree) -> list[str]:
    """A tree without empty elements as tokens; a TOP around it is left out."""
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
    labels: list[str] = [TOP]
    parts: list[list[Tree]] = [[]]
    done, whole = 0, True

    def close() -> bool:
        label, children = labels.pop(), tuple(parts.pop())
        if children:
            parts[-1].append(Tree(label, children))
        return bool(children)

    def put(stop: int) -> None:
        nonlocal done
        parts[-1].extend(Tree(TAG, word=word) for word in words[done:stop])
        done = max(done, stop)

    for token in tokens:
        if token[:1] == "(" and len(token) > 1:
            whole &= len(labels) > 1 or not parts[0]  # a second tree beside the first
            if len(labels) >= DEEPEST - 1:  # a word has a bracket too
                whole = False
                continue
            labels.append(token[1:])
            parts.append([])
        elif token[:1] == ")" and len(token) > 1:
            if token[1:] not in labels[1:]:
                whole = False
                continue
            while labels[-1] != token[1:]:
                whole = False
                close()
            whole &= close()
        else:
            number = int(token[1:-1])
            whole &= number == done + 1 and number <= len(words) and len(labels) > 1
            put(min(number, len(words)))
    whole &= len(labels) == 1 and done == len(words)
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
    return Tree(TOP, tuple(parts[0])), whole
