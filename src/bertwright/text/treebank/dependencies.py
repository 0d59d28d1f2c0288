"""Convert bracketed trees to dependencies: each word's head and relation, by the rules of Collins.

Collins 1999 (Head-driven statistical models for natural language parsing, appendix A) has a table
that says which child of a phrase contains its head; every other child depends on that word. The
relation is the label of the child and of the phrase, such as `NP-SBJ of S`; empty elements are left
out.
"""

from __future__ import annotations

from dataclasses import dataclass

from bertwright.text.treebank.trees import Tree, category

PUNCTUATION = {"``", "''", ",", ".", ":", "-LRB-", "-RRB-", "HYPH"}
"""The Penn Treebank's tags of words that have no relation."""

_HEADS = """
ADJP left NNS QP NN $ ADVP JJ VBN VBG ADJP JJR NP JJS DT FW RBR RBS SBAR RB
ADVP right RB RBR RBS FW ADVP TO CD JJR JJ IN NP JJS NN
CONJP right CC RB IN
NAC left NN NNS NNP NNPS NP NAC EX $ CD QP PRP VBG JJ JJS JJR ADJP FW
PP right IN TO VBG VBN RP FW
PRT right RP
QP left $ IN NNS NN JJ RB DT CD NCD QP JJR JJS
RRC right VP NP ADVP ADJP PP
S left TO IN VP S SBAR ADJP UCP NP
SBAR left WHNP WHPP WHADVP WHADJP IN DT S SQ SINV SBAR FRAG
SBARQ left SQ S SINV SBARQ FRAG
SINV left VBZ VBD VBP VB MD VP S SINV ADJP NP
SQ left VBZ VBD VBP VB MD VP SQ
VP left TO VBD VBN MD VBZ VB VBG VBP VP ADJP NN NNS NP
WHADJP left CC WRB JJ ADJP
WHADVP right CC WRB
WHNP left WDT WP WP$ WHADJP WHPP WHNP
WHPP right IN TO FW
"""
HEADS = {label: (side, labels) for label, side, *labels in map(str.split, _HEADS.split("\n")[1:-1])}
_NOUNS = {"NN", "NNP", "NNPS", "NNS", "NX", "POS", "JJR"}
_NP = (
    ("right", _NOUNS),
    ("left", {"NP", "NML"}),
    ("right", {"$", "ADJP", "PRN"}),
    ("right", {"CD"}),
    ("right", {"JJ", "JJS", "RB", "QP"}),
)


@dataclass(frozen=True)
class DependencySentence:
    """W words, each with its head and its relation to the head."""

    words: list[str]
    heads: list[int]
    """The index of each word's head, from 0; -1 for the root and for punctuation."""
    relations: list[str]


def head_child(tree: Tree) -> int:
    """Return the index of the child that contains a phrase's head."""
    labels = [category(child.label) for child in tree.children]
    forwards = range(len(labels))
    label = category(tree.label)
    if label in ("NP", "NML"):
        if labels[-1] == "POS":
            return len(labels) - 1
        for side, chosen in _NP:
            for n in forwards if side == "left" else reversed(forwards):
                if labels[n] in chosen:
                    return n
        return len(labels) - 1
    side, order = HEADS.get(label, ("left", []))
    numbers = list(forwards if side == "left" else reversed(forwards))
    for each in order:
        for n in numbers:
            if labels[n] == each:
                return n
    return next((n for n in numbers if labels[n] not in PUNCTUATION), numbers[0])


def dependencies_of(tree: Tree) -> DependencySentence:
    """Return the dependencies of a tree without empty elements."""
    leaves = tree.leaves()
    heads, relations = [-1] * len(leaves), [""] * len(leaves)

    def visit(node: Tree, first: int) -> tuple[int, int]:
        """Return the head of a phrase that begins at word `first`, and the word after the
        phrase."""
        if node.word is not None:
            return first, first + 1
        child_heads, stop = [], first
        for child in node.children:
            head, stop = visit(child, stop)
            child_heads.append(head)
        head = child_heads[head_child(node)]
        for child, word in zip(node.children, child_heads, strict=True):
            if word != head and leaves[word].label not in PUNCTUATION:
                heads[word] = head
                relations[word] = f"{_relation(child.label)} of {category(node.label)}"
        return head, stop

    visit(tree, 0)
    return DependencySentence(tree.words(), heads, relations)


def _relation(label: str) -> str:
    """Return a label with its functions, without indices: `NP-SBJ` for `NP-SBJ-1`."""
    if label[:1] == "-":
        return label
    first, *rest = label.split("=")[0].split("-")
    return "-".join([first, *(each for each in rest if each.isalpha())])
