"""Sequences laid end to end: what a model is fed. There is no padding (docs/architecture.md).

Sequences are sorted by length, longest first, so that equal lengths lie side by side. A pair is
[CLS] A [SEP] B [SEP] with token types 0 up to the first [SEP] and 1 behind it; a single text is
[CLS] A [SEP]. Letters: B sequences, N tokens in all, K masked tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bertwright.arrays import Bools, Int64s
from bertwright.data.masking import Masker, Vocabulary
from bertwright.data.sentence_pairs import Plan
from bertwright.data.shards import Shards


@dataclass(frozen=True)
class Batch:
    """Sequences end to end, longest first; arrays of NumPy."""

    input_ids: Int64s
    """[N]"""
    token_type_ids: Int64s
    """[N]: 0 in [CLS] A [SEP], 1 in B [SEP]."""
    lengths: Int64s
    """[B]"""
    masked_positions: Int64s
    """[K]: places in N, rising."""
    masked_labels: Int64s
    """[K]: the ids that were there."""
    next_sentence_labels: Int64s | None
    """[B]: 0 if B follows A, 1 if it is random (or the two are swapped); None without pairs."""
    positions: Int64s
    """[B]: where each sequence stands in the epoch (in the input, for `collate`)."""

    @property
    def num_tokens(self) -> int:
        """N."""
        return len(self.input_ids)


def vocabulary_of(shards: Shards) -> Vocabulary:
    """The special ids of the tokenizer that built the shards."""
    known = shards.manifest["tokenizer"]
    return Vocabulary(
        size=int(known["vocab_size"]),
        unk_id=int(known["unk_id"]),
        cls_id=int(known["cls_id"]),
        sep_id=int(known["sep_id"]),
        mask_id=int(known["mask_id"]),
        special_ids=frozenset(int(number) for number in known["special_ids"]),
    )


def assemble(
    shards: Shards,
    plan: Plan,
    positions: Int64s,
    vocabulary: Vocabulary,
    masker: Masker,
    mask_key: np.uint64,
) -> Batch:
    """Make a batch of the instances at `positions` [B] of an epoch's plan."""
    lengths = plan.lengths[positions]
    order = np.argsort(-lengths, kind="stable")
    positions, lengths = positions[order], lengths[order]
    a_start = plan.a_start[positions]
    a_length = plan.a_stop[positions] - a_start
    starts = np.cumsum(lengths) - lengths
    ids = np.full(int(lengths.sum()), vocabulary.sep_id, np.int64)
    ids[starts] = vocabulary.cls_id
    source, target = _ranges(a_start, a_length), _ranges(starts + 1, a_length)
    labels: Int64s | None = None
    if plan.paired:
        b_start = plan.b_start[positions]
        b_length = plan.b_stop[positions] - b_start
        source = np.concatenate([source, _ranges(b_start, b_length)])
        target = np.concatenate([target, _ranges(starts + 2 + a_length, b_length)])
        labels = plan.is_random[positions].astype(np.int64)
        halves = np.stack([a_length + 2, b_length + 1], axis=1).ravel()
        types = np.repeat(np.tile(np.arange(2), len(lengths)), halves)
    else:
        types = np.zeros_like(ids)
    ids[target] = shards.tokens_at(source)
    word_starts: Bools | None = None
    if masker.config.whole_word:
        word_starts = np.ones(len(ids), np.bool_)
        word_starts[target] = shards.word_starts_at(source)
        word_starts[starts + 1] = True  # a cut word counts as a word
        if plan.paired:
            word_starts[starts + 2 + a_length] = True
    input_ids, masked_positions, masked_labels = masker(
        ids, lengths, positions, mask_key, word_starts
    )
    return Batch(
        input_ids=input_ids,
        token_type_ids=types,
        lengths=lengths,
        masked_positions=masked_positions,
        masked_labels=masked_labels,
        next_sentence_labels=labels,
        positions=positions,
    )


def collate(
    sequences: Sequence[Sequence[int]], token_types: Sequence[Sequence[int]] | None = None
) -> Batch:
    """Lay ready sequences of ids end to end, longest first; nothing masked, no labels.

    `positions` of the batch tells which input each sequence was: `results[batch.positions] = rows`.
    """
    lengths = np.fromiter((len(ids) for ids in sequences), np.int64, len(sequences))
    order = np.argsort(-lengths, kind="stable")
    ids = [np.asarray(sequences[row], np.int64) for row in order]
    nothing = np.zeros(0, np.int64)
    flat = np.concatenate([nothing, *ids])
    if token_types is None:
        types = np.zeros_like(flat)
    else:
        types = np.concatenate(
            [nothing, *(np.asarray(token_types[row], np.int64) for row in order)]
        )
    return Batch(
        input_ids=flat,
        token_type_ids=types,
        lengths=lengths[order],
        masked_positions=nothing,
        masked_labels=nothing,
        next_sentence_labels=None,
        positions=order.astype(np.int64),
    )


def token_batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Indices of sequences, longest first, in batches of at most so many tokens (or of one)."""
    rows: list[int] = []
    tokens = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if rows and tokens + lengths[row] > most_tokens:
            yield rows
            rows, tokens = [], 0
        rows.append(row)
        tokens += lengths[row]
    if rows:
        yield rows


def _ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """start, start + 1, ..., for each start as many as its length, end to end."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(
        starts - ends + lengths, lengths
    )
