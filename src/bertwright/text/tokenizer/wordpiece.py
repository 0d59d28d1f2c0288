"""A WordPiece vocabulary: the pieces that raise the likelihood of the corpus most.

Source: Schuster and Nakajima, "Japanese and Korean Voice Search" (ICASSP 2012), section 3.1: start
from the characters; "choose the new word unit out of all possible ones that increases the
likelihood on the training data the most when added to the model"; repeat. google-research/bert
released vocabularies made so, never the trainer.

The model is a unigram model over pieces, estimated on the pieces themselves. With c_x the count of
piece x and N the number of pieces, its log-likelihood is

    L = sum over x of c_x log c_x  -  N log N.

Merging all n occurrences of the pair (a, b) makes a piece of count n, leaves a and b with n
fewer, and N with n fewer. The gain is exact, not an approximation:

    gain = n log n + (c_a - n) log(c_a - n) - c_a log c_a
                   + (c_b - n) log(c_b - n) - c_b log c_b
         - (N - n) log(N - n) + N log N,

for a = b the middle lines become (c_a - 2n) log(c_a - 2n) - c_a log c_a.

To first order this is n log(n N / (c_a c_b)): how often, times how surprising. Byte pair encoding
maximizes n alone. The score n / (c_a c_b) found in tutorials is the surprise alone: it is the gain
per occurrence, so it puts any two characters seen once, together, above "t" + "##h".

Cutting at run time is longest match first, which may cut otherwise than the merges did. So more
pieces are learned than asked for, and those go whose absence costs the likelihood least under that
very cut; see `text.pruning`.
"""

from __future__ import annotations

import math

import numpy as np

from bertwright.arrays import Bools, Float64s, Int64s
from bertwright.text.tokenizer.merges import Criterion


def gain(pair: Int64s, left: Int64s, right: Int64s, twins: Bools, total: int) -> Float64s:
    """Gain in log-likelihood of merging each pair, in nats.

    `pair` how often each pair can be merged, `left` and `right` counts of their pieces, `twins`
    whether both are the same piece, `total` the number of pieces in the corpus; all arrays of one
    shape.
    """
    n = pair.astype(np.float64)
    rest_left = np.where(twins, left - 2 * pair, left - pair)
    gained = _x_log_x(n) + _x_log_x(rest_left) - _x_log_x(left)
    gained += np.where(twins, 0.0, _x_log_x(right - pair) - _x_log_x(right))
    return gained + total * math.log(total) - _x_log_x(total - n)


def least_count(score: float, total: int) -> float:
    """The count below which no pair gains `score`: the gain is at most n (1 + log N)."""
    return score / (1 + math.log(total))


def _x_log_x(x: Float64s | Int64s) -> Float64s:
    """x log x, 0 at 0 (and below it: `Merger` first asks with counts of runs that overlap)."""
    x = np.maximum(x, 1).astype(np.float64)
    return x * np.log(x)


LIKELIHOOD = Criterion(score=gain, bound=least_count)
