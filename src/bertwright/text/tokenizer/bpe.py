"""Byte pair encoding's choice of pieces: always the most frequent pair.

Source: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units"
(ACL 2016), section 3.2, on characters. The pieces carry WordPiece's "##" and are cut by longest
match first at run time like every other vocabulary here, so that one tokenizer runs them all and
any BERT loads them; the order of the merges is not kept. Of a run ("aaa") those pairs count that
can be merged together, where the paper's listing counts overlapping ones too.
"""

from __future__ import annotations

import numpy as np

from bertwright.arrays import Bools, Float64s, Int64s
from bertwright.text.tokenizer.merges import Criterion


def frequency(pair: Int64s, left: Int64s, right: Int64s, twins: Bools, total: int) -> Float64s:
    """The count of each pair."""
    return pair.astype(np.float64)


def least_count(score: float, total: int) -> float:
    """The count below which no pair scores `score`."""
    return score


FREQUENCY = Criterion(score=frequency, bound=least_count)
