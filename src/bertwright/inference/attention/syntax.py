"""Heads that attend from a word to its syntactic head (Clark et al. 2019, section 4).

Attention between words: that to a word is the sum over its tokens, that from a word their mean. A
head of attention finds a word's head where the word attends most to it (of all other words), or
where, in the other direction, it is the word that attends most to this one. The baseline is the
best fixed distance. What is best is chosen on one half of the sentences and evaluated on the other,
and the other way round: of many heads the best would be too good on the sentences it is chosen on.

Letters: W words, T tokens, L layers, A heads, K candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise

import numpy as np

from bertwright.arrays import Bools, Float32s, Int64s
from bertwright.errors import DataError
from bertwright.inference.attention.maps import maps_of_all, require_attention
from bertwright.inference.encode import ModelRunner
from bertwright.progress import OnProgress, silent
from bertwright.text.treebank.dependencies import DependencySentence

CHUNK = 64
REACH = 10
"""The furthest fixed distance."""
ALL = "all"
DIRECTIONS = ("dependent to head", "head to dependent")


@dataclass(frozen=True)
class Best:
    """The best head of attention for something, and the best baseline."""

    count: int
    layer: int
    """From 1, as the head."""
    head: int
    direction: str
    accuracy: float
    baseline: str
    baseline_accuracy: float


def split_words(runner: ModelRunner, words: Sequence[str]) -> tuple[list[int], list[slice]] | None:
    """The ids of a framed sequence of words, and the tokens of each; None where a word has none, or
    where they are more than the model reads."""
    ids, lengths = runner.tokenizer.encode_sentence_ids(list(words))
    framing, longest = runner.tokenizer.framing, runner.spec.max_length
    framed = framing.one(ids.tolist())
    if not len(ids) or not lengths.all() or (longest is not None and len(framed) > longest):
        return None
    (inside,) = framing.inside(len(ids))
    ends = accumulate(lengths.tolist(), initial=inside.start)
    return framed, [slice(*pair) for pair in pairwise(ends)]


def word_maps(maps: Float32s, words: Sequence[slice]) -> Float32s:
    """`[..., T, T]` -> `[..., W, W]`"""
    starts = [word.start for word in words]
    inside = slice(starts[0], words[-1].stop)
    lengths = np.array([word.stop - word.start for word in words])
    at = np.array(starts) - starts[0]
    to = np.add.reduceat(maps[..., inside, inside], at, axis=-1)
    found: Float32s = np.add.reduceat(to, at, axis=-2) / lengths[:, None]
    return found


class Tally:
    """How often each of K candidates is right, in both halves."""

    def __init__(self, candidates: int) -> None:
        self.right: Int64s = np.zeros((2, candidates), np.int64)
        self.count = np.zeros(2, np.int64)

    def add(self, half: int, right: Bools) -> None:
        """Count a case of a half: which of the K candidates are right."""
        self.right[half] += right.astype(np.int64)
        self.count[half] += 1

    def best(self) -> tuple[int, float]:
        """The best candidate over all, and the accuracy of those chosen on the other half."""
        chosen = [int(self.right[1 - half].argmax()) for half in (0, 1)]
        right = sum(int(self.right[half][chosen[half]]) for half in (0, 1))
        return int(self.right.sum(0).argmax()), right / max(1, int(self.count.sum()))


def score_syntax(
    runner: ModelRunner,
    sentences: Iterable[DependencySentence],
    limit: int = 1000,
    least: int = 50,
    on_progress: OnProgress = silent,
) -> tuple[int, dict[str, Best]]:
    """How well heads of attention find the heads of words of a treebank: the number of sentences
    that were measured, and the best by relation, `ALL` first.

    Args:
        limit: sentences that are read.
        least: words that a relation must have to be shown.

    Raises:
        DataError: a model without attention, or no sentence that it can read.
    """
    require_attention(runner)
    offsets = [n for n in range(-REACH, REACH + 1) if n]
    heads: dict[str, Tally] = {}
    fixed: dict[str, Tally] = {}
    grid: tuple[int, ...] = (0, 0)
    measured, done = 0, 0
    rows = iter(sentences)
    while chunk := list(islice(rows, min(CHUNK, limit - done))):
        split = [(each, split_words(runner, each.words)) for each in chunk]
        usable = [(each, found) for each, found in split if found is not None]
        for row, maps in maps_of_all(runner, [ids for _, (ids, _) in usable]):
            sentence, (_, words) = usable[row]
            grid = maps.shape[:2]
            attended = word_maps(maps, words)
            attended[..., np.arange(len(words)), np.arange(len(words))] = -1
            best = np.stack([attended.argmax(-1), attended.argmax(-2)])  # [2, L, A, W]
            for word, (parent, relation) in enumerate(
                zip(sentence.heads, sentence.relations, strict=True)
            ):
                if parent < 0:
                    continue
                right = (best[..., word] == parent).reshape(-1)
                near = np.array([parent - word == offset for offset in offsets])
                for name in (ALL, relation):
                    heads.setdefault(name, Tally(len(right))).add((done + row) % 2, right)
                    fixed.setdefault(name, Tally(len(offsets))).add((done + row) % 2, near)
        done, measured = done + len(chunk), measured + len(usable)
        on_progress(done, limit)
    if ALL not in heads:
        raise DataError("the treebank has no sentence with heads that this model can read")
    names = sorted(heads, key=lambda name: (name != ALL, -int(heads[name].count.sum()), name))
    found = {}
    for name in names:
        count = int(heads[name].count.sum())
        if count < least and name != ALL:
            continue
        place, accuracy = heads[name].best()
        direction, layer, head = np.unravel_index(place, (2, *grid))
        offset, baseline = fixed[name].best()
        found[name] = Best(
            count,
            int(layer) + 1,
            int(head) + 1,
            DIRECTIONS[int(direction)],
            accuracy,
            f"word {offsets[offset]:+d}",
            baseline,
        )
    return measured, found
