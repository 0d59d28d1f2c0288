"""Make batches of sentence pairs for translation: sources and targets laid end to end, unpadded.

The source is framed like every text (`[CLS] x [SEP]`, or with the tokenizer's own begin and end
tokens). The decoder reads `[CLS] y` and predicts `y [SEP]`.

Letters: B pairs, N source and M target tokens.
"""

from __future__ import annotations

import numpy as np
import torch

from bertwright.arrays import Int64s, ranges
from bertwright.data.batch import inputs_of
from bertwright.data.checkup import Checkup, grade, note_lengths
from bertwright.data.instances import Shuffled
from bertwright.data.shards import Shards
from bertwright.errors import DataError
from bertwright.nn.outputs.translation import TranslationBatch
from bertwright.text.framing import Framing, ends_of


class ParallelText(Shuffled):
    """The `Instances` of translation: pairs of shards that were built with --parallel."""

    def __init__(self, shards: Shards, documents: Int64s, length: int, *, seed: int = 0) -> None:
        """Select the pairs whose source and target are short enough.

        Args:
            documents: the numbers of the pairs.
            length: the most tokens of a source, and of a target, including begin and end tokens.
                Longer pairs are left out and counted in `left_out`.
        """
        if not shards.manifest.get("parallel"):
            raise DataError(
                f"{shards.folder} holds documents, not pairs of sentences: expected what "
                "bertwright data build --parallel SOURCE TARGET writes, or --parallel PAIRS.tsv"
            )
        ends = ends_of(shards.special)
        if ends is None:
            raise DataError(
                f"the vocabulary of {shards.folder} has no tokens for begin and end, which "
                "translation needs: train one with bertwright tokenizer train --special-tokens bert"
            )
        self._framing = Framing(ends[:1], ends[1:])
        self.shards = shards
        first = shards.document_sentences[documents]
        starts = shards.sentence_tokens
        source, target = (starts[first + n + 1] - starts[first + n] for n in (0, 1))
        short = (source + 2 <= length) & (target + 2 <= length)
        self.left_out = int((~short).sum())
        if not short.any():
            raise DataError(
                f"{shards.folder} has no pair of {length} tokens a side: raise --sequence-length"
            )
        self._start = starts[first[short]]
        self._source, self._target = source[short], target[short]  # [pairs] tokens, not framed
        super().__init__(self._source + self._target + 3, 2 * length, seed)

    def batch(self, epoch: int, positions: Int64s) -> TranslationBatch:
        rows = self.rows(epoch, positions)
        rows = rows[np.lexsort((-self._target[rows], -self._source[rows]))]
        source, target, start = self._source[rows], self._target[rows], self._start[rows]
        ids = self._framed(start, source)
        whole = self._framed(start + source, target)  # begin, target, end
        stops = np.cumsum(target + 2)
        return TranslationBatch(
            inputs_of(ids, source + 2),
            target=inputs_of(np.delete(whole, stops - 1), target + 1),
            labels=torch.from_numpy(np.delete(whole, stops - target - 2)),
        )

    def check(self, checkup: Checkup) -> None:
        """Add findings about the lengths: how many pairs are left out, and the correlation of
        source and target, which is low if the lines do not translate each other.
        """
        source, target, pairs = self._source, self._target, len(self._source)
        note_lengths(checkup, self.unordered, self.longest)
        left_out = self.left_out / (pairs + self.left_out)
        checkup.note(
            grade(left_out, 0.01, 0.5),
            "left_out",
            round(left_out, 4),
            f"{left_out:.1%} of the pairs have a side of more than {self.longest // 2} tokens and "
            "are left out",
            "raise --sequence-length, or split what is no sentence",
        )
        if pairs >= 100 and source.std() and target.std():
            together = float(np.corrcoef(np.log(source), np.log(target))[0, 1])
            checkup.note(
                "warning" if together < 0.3 else "ok",
                "length_correlation",
                round(together, 3),
                f"lengths of source and target have a correlation of {together:.2f}",
                "line i of one file may not translate line i of the other: look at some in the "
                "middle and at the end",
            )

    def _framed(self, start: Int64s, lengths: Int64s) -> Int64s:
        """Return sentences between begin and end tokens, given the position of each one's first
        token in the shards, and its length.
        """
        frames = self._framing.frames(lengths)
        frames.ids[frames.first] = self.shards.tokens_at(ranges(start, lengths))
        return frames.ids
