"""Heads that attend from a word to its syntactic head (Clark et al. 2019, section 4).

Attention between words: that to a word is the sum over its tokens, that from a word their mean. A
head of attention finds a word's head where the word attends most to it (of all other words), or
where, in the other direction, it is the word that attends most to this one. The baseline is the
best fixed distance. What is best is chosen on one half of the sentences and evaluated on the other,
and the other way round: of many heads the best would be too good on the sentences it is chosen on.

Letters: W words, T tokens, L layers, A heads, C cases, K candidates.
"""

from __future__ import annotations

from collections import Counter
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
LEAST = 50
"""Words that a relation must have to be shown."""
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


def chosen(right: Bools, half: Int64s) -> tuple[int, float]:
    """Which of K candidates is the best, and the accuracy of those chosen on the other half.

    right `[C, K]`: whether a candidate is right in each of C cases; half `[C]`, 0 or 1.
    """
    sums = np.stack([right[half == number].sum(0) for number in (0, 1)])  # [2, K]
    found = sum(int(sums[number, sums[1 - number].argmax()]) for number in (0, 1))
    return int(sums.sum(0).argmax()), found / len(right)


def best_head(
    heads: Bools,
    fixed: Bools,
    half: Int64s,
    directions: Sequence[str],
    baselines: Sequence[str],
) -> Best:
    """The best head of attention in C cases, whose halves are `half`.

    Args:
        heads: whether each is right, `[C, directions, L, A]`.
        fixed: whether each baseline is, `[C, K]`.
        half: `[C]`, 0 or 1.
        directions: what the first axis of heads is called.
        baselines: what the K are called.
    """
    place, accuracy = chosen(heads.reshape(len(heads), -1), half)
    direction, layer, head = map(int, np.unravel_index(place, heads.shape[1:]))
    baseline, right = chosen(fixed, half)
    return Best(
        len(heads),
        layer + 1,
        head + 1,
        directions[direction],
        accuracy,
        baselines[baseline],
        right,
    )


def score_syntax(
    runner: ModelRunner,
    sentences: Iterable[DependencySentence],
    limit: int = 1000,
    on_progress: OnProgress = silent,
) -> tuple[int, dict[str, Best]]:
    """How well heads of attention find the heads of words of a treebank: the number of sentences
    that were measured, of the first `limit`, and the best by relation, `ALL` first.

    Raises:
        DataError: a model without attention, or no sentence that it can read.
    """
    require_attention(runner)
    offsets = [n for n in range(-REACH, REACH + 1) if n]
    heads: list[Bools] = []
    fixed: list[list[bool]] = []
    halves: list[int] = []
    relations: list[str] = []
    measured, done = 0, 0
    rows = iter(sentences)
    while chunk := list(islice(rows, min(CHUNK, limit - done))):
        split = [(each, split_words(runner, each.words)) for each in chunk]
        usable = [(each, found) for each, found in split if found is not None]
        for row, maps in maps_of_all(runner, [ids for _, (ids, _) in usable]):
            sentence, (_, words) = usable[row]
            attended = word_maps(maps, words)
            attended[..., np.arange(len(words)), np.arange(len(words))] = -1
            best = np.stack([attended.argmax(-1), attended.argmax(-2)])  # [2, L, A, W]
            for word, (parent, relation) in enumerate(
                zip(sentence.heads, sentence.relations, strict=True)
            ):
                if parent < 0:
                    continue
                heads.append(best[..., word] == parent)
                fixed.append([parent - word == offset for offset in offsets])
                halves.append((done + row) % 2)
                relations.append(relation)
        done, measured = done + len(chunk), measured + len(usable)
        on_progress(done, limit)
    if not heads:
        raise DataError("the treebank has no sentence with heads that this model can read")
    right, near, half = np.array(heads), np.array(fixed), np.array(halves)
    named = DIRECTIONS, [f"word {offset:+d}" for offset in offsets]
    found = {ALL: best_head(right, near, half, *named)}
    for name, count in Counter(relations).most_common():
        if count >= LEAST:
            rows = np.array(relations) == name
            found[name] = best_head(right[rows], near[rows], half[rows], *named)
    return measured, found
