"""Dropping the pieces that the run-time cut can best do without.

Merging decides by its own state which pieces a word is made of; at run time the longest match from
the left decides. The two disagree: on 20 MB of English one learned piece in twenty is never used
again (stepping stones such as "##tio" on the way to "##tion"). So more pieces are learned than
asked for, the words are cut as they will be cut, and the pieces that the likelihood misses least
go. The loss of a piece v is counted as in the pruning of Kudo, "Subword Regularization" (ACL
2018), section 3.2, with the longest match in place of the Viterbi cut:

    loss(v) = n_v (log p(v) - sum of log p(u) over the pieces u that v is cut into without v).

Characters stay, so that no word becomes unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from bertwright.text.tokenizer.merges import MARK
from bertwright.text.tokenizer.normalize import longest_match

PASSES = 3
"""The cut is made anew so many times on the way down: a dropped piece lends its uses to others."""


class Pruner:
    """The cut of all words under a vocabulary that shrinks."""

    def __init__(
        self,
        alphabet: Sequence[str],
        pieces: Sequence[str],
        words: Sequence[str],
        counts: Sequence[int],
    ) -> None:
        """Cut distinct `words`, seen `counts` times, with `alphabet` + `pieces`."""
        self.pieces = list(pieces)
        self.words = words
        self.counts = counts
        self._vocab = {piece: piece for piece in (*alphabet, *pieces)}
        self.uses: Counter[str] = Counter()
        """How often each piece is used, over all words."""
        self._cuts: list[list[str]] = []
        for word, count in zip(words, counts, strict=True):
            cut = self._cut(word)
            self._cuts.append(cut)
            for piece in cut:
                self.uses[piece] += count

    def shrink(self, size: int, passes: int = PASSES) -> list[str]:
        """Drop pieces, in `passes` steps, until `size` are left; return them in their order."""
        for left in range(passes, 0, -1):
            surplus = len(self.pieces) - size
            if surplus <= 0:
                break
            losses = self.losses()
            by_loss = sorted(self.pieces, key=lambda piece: (losses[piece], piece))
            self._drop(set(by_loss[: math.ceil(surplus / left)]))
        return self.pieces

    def losses(self) -> dict[str, float]:
        """The log-likelihood (nats) that dropping each piece alone would cost."""
        total = sum(self.uses.values())
        # a piece that is not in use yet is taken to have been used half a time
        log_p = {v: math.log((self.uses[v] or 0.5) / total) for v in self._vocab}
        losses = {}
        for piece in self.pieces:
            uses = self.uses[piece]
            losses[piece] = 0.0
            if uses:
                del self._vocab[piece]
                without = self._cut(piece.removeprefix(MARK), inside=piece.startswith(MARK))
                self._vocab[piece] = piece
                losses[piece] = uses * (log_p[piece] - sum(log_p[part] for part in without))
        return losses

    def _drop(self, dropped: set[str]) -> None:
        """Take pieces out and cut the words that used them again."""
        self.pieces = [piece for piece in self.pieces if piece not in dropped]
        for piece in dropped:
            del self._vocab[piece]
        uses = self.uses
        for place, cut in enumerate(self._cuts):
            if dropped.isdisjoint(cut):
                continue
            count = self.counts[place]
            for piece in cut:
                uses[piece] -= count
            self._cuts[place] = cut = self._cut(self.words[place])
            for piece in cut:
                uses[piece] += count

    def _cut(self, word: str, inside: bool = False) -> list[str]:
        """The pieces of a word, which always exist: the alphabet is never dropped."""
        cut = longest_match(word, self._vocab, inside=inside)
        if cut is None:
            raise ValueError(f"the alphabet does not cover {word!r}")
        return cut
