"""Masking: select the tokens to predict and replace them, for a whole batch at once.

Devlin et al. 2019, appendix A.1, as in google-research/bert, `create_masked_lm_predictions`. In a
sequence of T tokens, special ones included, min(max_predictions, max(1, round(0.15 T))) tokens are
selected, never [CLS] or [SEP]. A selected token becomes [MASK] in 80 % of the cases, a random token
in 10 %, and stays in 10 %. Whole-word masking goes through the words of a sequence in random order
and selects all tokens of a word if they still fit.

Every random draw is a hash of (key, position of the sequence in the epoch, token), so the masks of
a sequence depend neither on its batch nor on the rank.

Where we differ from google-research/bert: the random token is never a special one.

Letters: B sequences, N tokens in all, W words in all.
"""

from __future__ import annotations

import numpy as np

from bertwright.arrays import Bools, Int64s, UInt64s, ranges
from bertwright.data.randomness import below, mix, uniform
from bertwright.errors import ConfigError
from bertwright.models.bert.config import MaskingConfig


class Masker:
    """Selects and replaces tokens. It has no mutable state."""

    def __init__(
        self, config: MaskingConfig, special: Bools, unk_id: int, mask_id: int, sequence_length: int
    ) -> None:
        """Compute the tables of the ids that may be selected and drawn.

        Args:
            config: the rates of masking.
            special: `[V]`, whether each id is a special token.
            unk_id: the id of [UNK], which may be selected.
            mask_id: the id of [MASK].
            sequence_length: the maximum length of a sequence.
        """
        self.config, self.mask_id = config, mask_id
        self.most = config.most_predictions(sequence_length)
        self._replacements = np.flatnonzero(~special)
        self._never = special.copy()
        self._never[unk_id] = False  # an unknown word is predicted like other words, as published
        if len(self._replacements) == 0:
            raise ConfigError(
                f"the vocabulary of {len(special)} entries holds special tokens only; "
                "train a tokenizer with a larger --vocab-size"
            )

    def __call__(
        self,
        ids: Int64s,
        lengths: Int64s,
        positions: Int64s,
        key: np.uint64,
        word_starts: Bools | None = None,
    ) -> tuple[Int64s, Int64s, Int64s]:
        """Mask a batch.

        Args:
            ids: `[N]`, the sequences end to end.
            lengths: `[B]`, which sum to N.
            positions: `[B]`, the positions of the sequences in the epoch.
            key: the key of all random draws.
            word_starts: `[N]`, whether a token begins a word; needed for whole-word masking.

        Returns:
            The masked ids `[N]`, the selected positions in N `[K]`, in rising order, and their
            labels `[K]`.
        """
        starts = np.cumsum(lengths) - lengths
        sequence = np.repeat(np.arange(len(lengths)), lengths)
        within = np.arange(len(ids)) - starts[sequence]
        token_keys = mix(mix(np.atleast_1d(key), positions)[sequence], within)
        counts = np.minimum(self.most, np.maximum(1, np.rint(lengths * self.config.probability)))
        counts = counts.astype(np.int64)
        candidates = np.flatnonzero(~self._never[ids])
        if self.config.whole_word:
            if word_starts is None:
                raise ConfigError("whole-word masking needs word_starts")
            chosen = _choose_words(candidates, word_starts, sequence, token_keys, counts)
        else:
            chosen = _choose_tokens(candidates, sequence, token_keys, counts)
        labels = ids[chosen]
        return self._replace(ids, chosen, token_keys[chosen]), chosen, labels

    def _replace(self, ids: Int64s, chosen: Int64s, keys: UInt64s) -> Int64s:
        """Return a copy of `ids` with the selected tokens masked, replaced or unchanged."""
        masked = ids.copy()
        draw = uniform(mix(keys, 1))
        mask_fraction, random_fraction = self.config.mask_fraction, self.config.random_fraction
        hide = draw < mask_fraction
        masked[chosen[hide]] = self.mask_id
        swap = (draw >= mask_fraction) & (draw < mask_fraction + random_fraction)
        drawn = below(mix(keys[swap], 2), len(self._replacements))
        masked[chosen[swap]] = self._replacements[drawn]
        return masked


def _choose_tokens(
    candidates: Int64s, sequence: Int64s, token_keys: UInt64s, counts: Int64s
) -> Int64s:
    """Select the candidates with the smallest draws, `counts` `[B]` of each sequence. Return their
    positions in rising order."""
    order = _shuffle_within(mix(token_keys[candidates], 0), sequence[candidates])
    shuffled = candidates[order]
    rank = _rank_within(sequence[shuffled])
    return np.sort(shuffled[rank < counts[sequence[shuffled]]])


def _choose_words(
    candidates: Int64s, word_starts: Bools, sequence: Int64s, token_keys: UInt64s, counts: Int64s
) -> Int64s:
    """Select words in random order, each if all of its tokens still fit. Return the positions of
    their tokens in rising order.

    A round selects words of every sequence up to the first that does not fit. A word that is larger
    than the remaining number of predictions can never fit and is dropped, so the rounds give the
    same result as a loop over the words.
    """
    if len(candidates) == 0:
        return candidates
    # A word also begins after a special token and at the begin of a sequence.
    begins = word_starts[candidates] | (np.diff(candidates, prepend=-2) > 1)
    first = np.flatnonzero(begins)
    sizes = np.diff(first, append=len(candidates))
    heads = candidates[first]
    order = _shuffle_within(mix(token_keys[heads], 0), sequence[heads])
    room = counts.copy()
    taken: list[Int64s] = []
    while order.size:
        owner = sequence[heads[order]]
        order = order[sizes[order] <= room[owner]]
        owner = sequence[heads[order]]
        if order.size == 0:
            break
        total = np.cumsum(sizes[order])
        is_first = np.diff(owner, prepend=-1) != 0
        before = (total - sizes[order])[is_first]
        within = total - np.repeat(before, np.diff(np.flatnonzero(is_first), append=len(owner)))
        fits = within <= room[owner]
        taken.append(order[fits])
        np.subtract.at(room, owner[fits], sizes[order[fits]])
        # Words after the first that does not fit were counted with it; the next round tries them.
        order = order[~fits]
    words = np.concatenate(taken) if taken else np.zeros(0, np.int64)
    return np.sort(candidates[ranges(first[words], sizes[words])])


def _shuffle_within(draws: UInt64s, sequence: Int64s) -> Int64s:
    """Return the indices that sort entries by sequence, then by the upper 48 bits of the draw."""
    compared = draws >> np.uint64(16)
    if sequence.max(initial=0) < 1 << 16:  # both fit into one key, which is faster to sort
        return np.argsort((sequence.astype(np.uint64) << np.uint64(48)) | compared)
    return np.lexsort((compared, sequence))


def _rank_within(sequence: Int64s) -> Int64s:
    """Return the rank of each entry within its sequence, whose entries must be consecutive."""
    is_first = np.diff(sequence, prepend=-1) != 0
    begins = np.flatnonzero(is_first)
    return np.arange(len(sequence)) - np.repeat(begins, np.diff(begins, append=len(sequence)))
