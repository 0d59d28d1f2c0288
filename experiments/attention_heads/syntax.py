"""Find the attention heads that attend from a word to its syntactic head (Clark et al. 2019,
section 4).

The attention to a word is the sum over its tokens, and that from a word is their mean. An attention
head finds a word's syntactic head if the word attends to it more than to any other word; or, in the
other direction, if the syntactic head's attention is highest for this word. The baseline is the
best fixed distance. The best head is chosen on one half of the sentences and evaluated on the
other, and vice versa, because the best of many heads would look too good on the sentences it was
chosen on.

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
"""The largest fixed distance."""
LEAST = 50
"""The least number of words of a relation that is reported."""
ALL = "all"
DIRECTIONS = ("dependent to head", "head to dependent")


@dataclass(frozen=True)
class Best:
    """The best attention head for a task, and the best baseline."""

    count: int
    layer: int
    """The layer of the head. Layers and heads are numbered from 1."""
    head: int
    direction: str
    accuracy: float
    baseline: str
    baseline_accuracy: float


def split_words(runner: ModelRunner, words: Sequence[str]) -> tuple[list[int], list[slice]] | None:
    """Return the ids of a framed sequence of words, and the slice of each word's tokens.

    The result is None if a word has no tokens, or if the sequence is longer than the model reads.
    """
    ids, lengths = runner.tokenizer.encode_sentence_ids(list(words))
    framing, longest = runner.tokenizer.framing, runner.spec.max_length
    framed = framing.one(ids.tolist())
    if not len(ids) or not lengths.all() or (longest is not None and len(framed) > longest):
        return None
    (inside,) = framing.inside(len(ids))
    ends = accumulate(lengths.tolist(), initial=inside.start)
    return framed, [slice(*pair) for pair in pairwise(ends)]


def word_maps(maps: Float32s, words: Sequence[slice]) -> Float32s:
    """Return attention between words from attention between tokens: `[..., T, T]` -> `[..., W,
    W]`.
    """
    starts = [word.start for word in words]
    inside = slice(starts[0], words[-1].stop)
    lengths = np.array([word.stop - word.start for word in words])
    at = np.array(starts) - starts[0]
    to = np.add.reduceat(maps[..., inside, inside], at, axis=-1)
    between_words: Float32s = np.add.reduceat(to, at, axis=-2) / lengths[:, None]
    return between_words


def chosen(right: Bools, half: Int64s) -> tuple[int, float]:
    """Return the index of the best of K candidates, and the cross-validated accuracy.

    On each half, the accuracy is that of the candidate that is best on the other half.

    Args:
        right: `[C, K]`, whether a candidate is right in each of C cases.
        half: `[C]`, 0 or 1.
    """
    sums = np.stack([right[half == number].sum(0) for number in (0, 1)])  # [2, K]
    hits = sum(int(sums[number, sums[1 - number].argmax()]) for number in (0, 1))
    return int(sums.sum(0).argmax()), hits / len(right)


def best_head(
    heads: Bools,
    fixed: Bools,
    half: Int64s,
    directions: Sequence[str],
    baselines: Sequence[str],
) -> Best:
    """Return the best attention head in C cases.

    Args:
        heads: whether each head is right, `[C, directions, L, A]`.
        fixed: whether each baseline is right, `[C, K]`.
        half: the half of each case, `[C]`, 0 or 1.
        directions: the names of the directions.
        baselines: the names of the K baselines.
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
    """Return how well attention heads find the syntactic heads of words in a treebank.

    Returns:
        The number of measured sentences among the first `limit`, and the best head by relation,
        `ALL` first.

    Raises:
        DataError: the model has no attention, or cannot read any sentence.
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
        usable = [(each, of_words) for each, of_words in split if of_words is not None]
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
    best_by_relation = {ALL: best_head(right, near, half, *named)}
    for name, count in Counter(relations).most_common():
        if count >= LEAST:
            rows = np.array(relations) == name
            best_by_relation[name] = best_head(right[rows], near[rows], half[rows], *named)
    return measured, best_by_relation
