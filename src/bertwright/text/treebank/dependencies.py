"""Words and their heads: from CoNLL-U, or from bracketed trees by the rules of Collins.

Collins 1999 (Head-driven statistical models for natural language parsing, appendix A): a table says
which part of a phrase its head is in; every other part depends on that word. The relation is the
label of the part and of the phrase, as `NP-SBJ of S`; empty elements are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertwright.errors import DataError
from bertwright.text.corpus.files import decoded_lines, open_bytes
from bertwright.text.treebank.trees import Tree, category, pruned, read_trees

CONLLU = (".conllu", ".conll", ".conllx")
PUNCTUATION = {"``", "''", ",", ".", ":", "-LRB-", "-RRB-", "HYPH"}
"""Tags of the Penn Treebank whose words have no relation."""
NO_RELATION = {"root", "punct", ""}

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
    """W words, each with its head and the relation to it."""

    words: list[str]
    heads: list[int]
    """From 0; -1: of the root, and of words whose relation does not count."""
    relations: list[str]


def read_dependencies(path: str | Path) -> Iterator[DependencySentence]:
    """Sentences of a CoNLL-U file, of a file of bracketed trees, or of a folder of these.

    Raises:
        DataError: no such file, or a line that is no word; names it.
    """
    path = Path(path)
    if path.suffix in CONLLU:
        yield from _read_conllu(path)
        return
    for tree in read_trees(path):
        bare = pruned(tree)
        if bare is not None:
            yield dependencies_of(bare)


def _read_conllu(path: Path) -> Iterator[DependencySentence]:
    """Words of ten columns, of which the second, seventh and eighth are read; a subtype of a
    relation (`nmod:poss`) is kept, lines of several words and of empty ones are left out."""
    if not path.is_file():
        raise DataError(f"no file {path}; expected a treebank")
    rows: list[tuple[str, int, str]] = []
    with open_bytes(path) as file:
        for number, line in enumerate(decoded_lines(file, path), start=1):
            columns = line.rstrip("\r\n").split("\t")
            if len(columns) == 1 and not columns[0].strip():
                if rows:
                    yield _sentence(rows, path, number)
                rows = []
            elif not columns[0].startswith("#") and columns[0].isdigit():
                if len(columns) < 8 or not columns[6].isdigit():
                    raise DataError(
                        f"line {number} of {path}: {len(columns)} columns; expected the ten of "
                        "CoNLL-U, the number of the word's head in the seventh"
                    )
                rows.append((columns[1], int(columns[6]) - 1, columns[7]))
            elif not columns[0].startswith("#") and not columns[0][:1].isdigit():
                raise DataError(f"line {number} of {path} is no line of CoNLL-U: {columns[0]!r}")
    if rows:
        yield _sentence(rows, path, number)


def _sentence(rows: list[tuple[str, int, str]], path: Path, number: int) -> DependencySentence:
    words, heads, relations = map(list, zip(*rows, strict=True))
    if max(heads) >= len(words):
        raise DataError(
            f"line {number} of {path}: the sentence before it has {len(words)} words, and a head "
            f"of number {max(heads) + 1}"
        )
    kept = [
        -1 if relation in NO_RELATION else head
        for head, relation in zip(heads, relations, strict=True)
    ]
    return DependencySentence(words, kept, relations)


def head_child(tree: Tree) -> int:
    """The number of the part that a phrase's head is in."""
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
    """The heads of a tree without empty elements, by the rules above."""
    leaves = tree.leaves()
    heads, relations = [-1] * len(leaves), [""] * len(leaves)

    def visit(node: Tree, first: int) -> tuple[int, int]:
        """The head of a phrase that begins at a word, and the word after it."""
        if node.word is not None:
            return first, first + 1
        found, stop = [], first
        for child in node.children:
            head, stop = visit(child, stop)
            found.append(head)
        head = found[head_child(node)]
        for child, word in zip(node.children, found, strict=True):
            if word != head and leaves[word].label not in PUNCTUATION:
                heads[word] = head
                relations[word] = f"{_relation(child.label)} of {category(node.label)}"
        return head, stop

    visit(tree, 0)
    return DependencySentence(tree.words(), heads, relations)


def _relation(label: str) -> str:
    """A label with its functions, without indices: `NP-SBJ` of `NP-SBJ-1`."""
    if label[:1] == "-":
        return label
    first, *rest = label.split("=")[0].split("-")
    return "-".join([first, *(each for each in rest if each.isalpha())])
