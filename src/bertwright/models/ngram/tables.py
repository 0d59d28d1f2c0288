"""The probabilities of an n-gram model, as an ARPA file has them (Katz's back-off form):

    log p(w | h) = log_p[h w]                         if h w is held
                 = backoff[h] + log p(w | h')         otherwise; h' is h without its first token,
                                                      backoff[h] is 0 if h is not held

An interpolated model has this form too: `log_p` then holds the sum over all orders. An n-gram of
order k is held as one number, `i V + w`, where i is the row of its first k - 1 tokens in the table
of order k - 1, and w is its last token. Tables are sorted by this number. Therefore n - 1 binary
searches over a whole text find all n-grams that end in one of its tokens, and all n-grams that
continue a context are consecutive. Logarithms are natural.

Letters: K predictions, C = n - 1, V vocabulary, M_k n-grams of order k (M_1 = V).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bertwright.models.ngram.config import NgramConfig
from bertwright.nn.batch import Batch
from bertwright.nn.encoder import Encoded
from bertwright.nn.objective import Loss, Objective

NEVER = -99 * 2.302585092994046
"""The logarithm of a probability of 0, as ARPA files have it."""


class NgramTable(NamedTuple):
    """The n-grams of one order."""

    keys: Tensor
    """`[M]` int64, ascending: `i V + w`; for order 1, the token ids."""
    log_p: Tensor
    """`[M]`"""
    backoff: Tensor
    """`[M]` for orders whose n-grams are contexts; empty in the highest order."""


class Ngrams(Objective[Batch]):
    """The objective that looks up probabilities; it has no weights that gradients train."""

    title = "next token"

    def __init__(self, config: NgramConfig) -> None:
        super().__init__()
        self.order, self.vocab_size = config.order, config.vocab_size
        sizes = [config.vocab_size, *(config.ngrams or (0,) * (config.order - 1))]
        for k, size in enumerate(sizes, 1):
            if k > 1:
                self.register_buffer(f"keys_{k}", torch.zeros(size, dtype=torch.int64))
            self.register_buffer(f"log_p_{k}", torch.zeros(size))
            if k < self.order:
                self.register_buffer(f"backoff_{k}", torch.zeros(size))

    def set_tables(self, tables: Sequence[NgramTable]) -> None:
        """Set the n-grams of the orders 1 to n."""
        for k, table in enumerate(tables, 1):
            for name, values in table._asdict().items():
                if hasattr(self, f"{name}_{k}"):
                    setattr(self, f"{name}_{k}", values)

    def table(self, k: int) -> NgramTable:
        """Return the n-grams of order k."""
        log_p = self.get_buffer(f"log_p_{k}")
        keys = self.get_buffer(f"keys_{k}") if k > 1 else torch.arange(self.vocab_size)
        backoff = self.get_buffer(f"backoff_{k}") if k < self.order else log_p[:0]
        return NgramTable(keys, log_p, backoff)

    def rows(self, ids: Tensor) -> list[Tensor]:
        """Return the table rows of all n-grams in sequences of token ids `[K, T]`, where -1 stands
        for no token: for each order k `[K, T - k + 1]`, with -1 for an n-gram that is not held.
        """
        rows = [ids]
        for k in range(2, min(self.order, ids.shape[1]) + 1):
            first, last, keys = rows[-1][:, :-1], ids[:, k - 1 :], self.get_buffer(f"keys_{k}")
            wanted = first * self.vocab_size + last
            at = torch.searchsorted(keys, wanted).clamp(max=max(0, len(keys) - 1))
            held = (first >= 0) & (last >= 0) & (keys[at] == wanted if len(keys) else False)
            rows.append(at.where(held, -1))
        return rows

    def count(self, batch: Any) -> int:
        """Return K, the number of predicted tokens in a batch."""
        return len(batch.positions)

    def forward(self, encoded: Encoded, batch: Any) -> Loss:
        """Return the loss summed over the K predicted tokens."""
        at = batch.positions
        log_p = self.log_probabilities(encoded.at(at), batch.tokens[at + 1])
        return Loss(-log_p.sum(), len(at), None)

    def log_probabilities(self, x: Tensor, tokens: Tensor) -> Tensor:
        """Return the log-probability of each token `[K]` after its context in x `[K, C]`.

        The result is `[K]`, in nats.
        """
        rows = self.rows(torch.cat([x, tokens[:, None]], 1))
        score = self.get_buffer("log_p_1")[tokens]
        for k in range(2, self.order + 1):
            at, context = rows[k - 1][:, -1], rows[k - 2][:, -2]
            score = score + _or_zero(self.get_buffer(f"backoff_{k - 1}"), context)
            score = torch.where(at >= 0, _or_zero(self.get_buffer(f"log_p_{k}"), at), score)
        return score

    def logits(self, x: Tensor) -> Tensor:
        """Return the log-probabilities of the whole vocabulary after contexts: x `[K, C]` ->
        `[K, V]`.
        """
        rows = self.rows(x)
        scores = self.get_buffer("log_p_1").repeat(len(x), 1)
        for k in range(2, self.order + 1):
            context = rows[k - 2][:, -1]
            scores += _or_zero(self.get_buffer(f"backoff_{k - 1}"), context)[:, None]
            keys, log_p = self.get_buffer(f"keys_{k}"), self.get_buffer(f"log_p_{k}")
            limits = torch.stack([context, context + 1], 1) * self.vocab_size
            for score, held, (start, stop) in zip(
                scores, context.tolist(), torch.searchsorted(keys, limits).tolist(), strict=True
            ):
                if held >= 0:
                    score[keys[start:stop] - held * self.vocab_size] = log_p[start:stop]
        return scores


def _or_zero(values: Tensor, rows: Tensor) -> Tensor:
    """Return the values at `rows`; 0 for the row -1."""
    if not len(values):
        return values.new_zeros(rows.shape)
    return values[rows.clamp(min=0)].where(rows >= 0, 0.0)
