"""N-gram models as a system: the text is counted once, and probabilities are estimated from the
counts.

Chen and Goodman 1998, "An Empirical Study of Smoothing Techniques for Language Modeling", section
3, describe interpolated Kneser-Ney smoothing with three discounts per order,

    p(w | h) = max(c(h w) - D(c(h w)), 0) / S(h) + g(h) p(w | h'),   S(h) = sum_w c(h w)
    D(c) = c - (c + 1) Y t_(c+1) / t_c for c = 1, 2 and 3 or more,   Y = t_1 / (t_1 + 2 t_2)

where t_c is the number of n-grams of this order with the count c, and g(h) makes the sum over w 1.
In the highest order, c counts occurrences; in lower orders, it counts the different tokens before
an n-gram. N-grams that nothing precedes (those that begin a document) keep their numbers of
occurrences, as in KenLM (Heafield et al. 2013). Below order 1 all tokens are equally likely. If D
is not between 0 and c, as in tiny texts, it is 0.5, 1 and 1.5. Add-k smoothing is
`(c(h w) + k) / (S(h) + k V)`, in the highest order only.

Pruned n-grams are removed after the estimate: discounts and sums are over all n-grams, and g(h)
gets the probability of the pruned ones, so that p still sums to 1.

Letters: V vocabulary, M n-grams of an order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from bertwright.arrays import Bools, Float64s, Int64s
from bertwright.data.loading.phases import Pass, PassBudget
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_text
from bertwright.data.token_streams import TokenStreams
from bertwright.models.catalogue import MODELS
from bertwright.models.ngram.config import NgramConfig, NgramRun
from bertwright.models.ngram.count import NgramCounts, count_ngrams
from bertwright.models.ngram.encoder import NgramContext, ngram_spec
from bertwright.models.ngram.tables import NEVER, Ngrams, NgramTable
from bertwright.models.system import System
from bertwright.nn.encoder import Encoder
from bertwright.nn.objective import Learner
from bertwright.text.framing import ends_of

_WINDOW = 1024
_FALLBACK = np.array([0.0, 0.5, 1.0, 1.5])


def token_streams(run: NgramRun, shards: Shards, split: Split, seed: int) -> TokenStreams:
    """Return the documents of a split as overlapping windows, so that the window of a predicted
    token contains the n - 1 tokens before it.
    """
    held = run.validation
    shards, documents, _ = split_text(shards, split, held.fraction, held.hold_out)
    order = run.model_config(shards.vocab_size).order
    return TokenStreams(shards, documents, _WINDOW + order, burn_in=max(0, order - 2), seed=seed)


def fit(run: NgramRun, shards: Shards, learner: Learner, budget: PassBudget) -> Iterator[Pass]:
    """Count the n-grams of the text and estimate the probabilities. This is the only pass; its loss
    is that of the counted text.
    """
    encoder, head = cast(Any, learner.encoder), cast(Ngrams, learner.objectives["next_token"])
    order = encoder.config.order
    thresholds = [*run.prune, *[run.prune[-1] if run.prune else 0] * order][:order]
    held = run.validation
    shards, documents, _ = split_text(shards, "train", held.fraction, held.hold_out)
    begin = (ends_of(shards.special) or [None])[0]
    with tempfile.TemporaryDirectory(prefix=".ngrams-", dir=run.out) as folder:
        counts = count_ngrams(shards, documents, order, Path(folder), run.memory_mb << 20)
        k = run.k if run.smoothing == "add-k" else None
        tables, loss = estimate(counts, begin, thresholds, k)
        tokens = int(counts[0].counts.sum())
    head.set_tables(tables)
    sizes = [len(table.keys) for table in tables]
    encoder.config = replace(encoder.config, ngrams=tuple(sizes[1:]))
    counted = {f"ngrams_{k}": float(size) for k, size in enumerate(sizes, 1)}
    yield Pass(tokens, {"loss": loss, **counted})


def estimate(
    counts: list[NgramCounts], begin: int | None, thresholds: list[int], k: float | None
) -> tuple[list[NgramTable], float]:
    """Return the tables of the orders 1 to n, and their loss on the counted text.

    Args:
        counts: the counts of the orders 1 to n.
        begin: the token that begins documents and is never predicted; None: there is none.
        thresholds: for each order, the number of occurrences up to which n-grams are left out.
        k: the constant of add-k; None: Kneser-Ney.
    """
    size = len(counts[0].keys)
    uniform = 1 / (size - (begin is not None))
    # probabilities of the next lower order, and which of its n-grams are held
    below, before = np.array([uniform]), np.ones(1, np.bool_)
    tables: list[NgramTable] = []
    summed = predicted = 0.0
    for number, (counted, threshold) in enumerate(zip(counts, thresholds, strict=True), 1):
        highest = number == len(counts)
        prefix = np.asarray(counted.keys) // size
        c = np.array(counted.counts)
        if not highest:
            left = np.bincount(counts[number].suffixes, minlength=len(c))
            c = np.where(left == 0, c, left if k is None else 0)
        if number == 1 and begin is not None:
            c[begin] = 0
        sums = np.bincount(prefix, weights=c, minlength=len(below))
        if k is None:
            discounted: Float64s = (c - discounts(c)[np.minimum(c, 3)]) / np.maximum(sums, 1)[
                prefix
            ]
        else:
            discounted = c / (sums + k / uniform)[prefix]
        held = np.asarray(counted.counts) > threshold if number > 1 else np.ones(size, np.bool_)
        discounted *= held
        given = np.bincount(prefix, weights=discounted, minlength=len(below))
        rest = np.where(sums > 0, np.maximum(1 - given, 1e-30), 1.0)
        p = discounted + rest[prefix] * below[np.asarray(counted.suffixes)]
        if number == 1 and begin is not None:
            p[begin] = 0
        # each predicted token ends an n-gram of the highest order, or a lower one after nothing
        whole = c > 0 if highest else (left == 0) & (c > 0) & (number > 1)
        summed -= float((counted.counts[whole] * np.log(p[whole])).sum())
        predicted += float(counted.counts[whole].sum())
        if tables:
            tables[-1] = tables[-1]._replace(backoff=_log(rest[before]))
        rows = np.cumsum(before) - 1
        keys = rows[prefix[held]] * size + np.asarray(counted.keys)[held] % size
        tables.append(NgramTable(torch.from_numpy(keys), _log(p[held]), torch.empty(0)))
        below, before = p, held
    return tables, summed / max(1.0, predicted)


def discounts(counts: Int64s) -> Float64s:
    """Return D for the counts 0, 1, 2 and 3 or more."""
    t = np.bincount(np.minimum(counts, 5), minlength=6).astype(np.float64)
    if not t[1:5].all():
        return _FALLBACK
    c = np.arange(1, 4)
    d = np.append(0, c - (c + 1) * t[1] / (t[1] + 2 * t[2]) * t[c + 1] / t[c])
    wrong: Bools = (d < 0) | (d > np.arange(4))
    return np.where(wrong.any(), _FALLBACK, d)


def _log(p: Float64s) -> torch.Tensor:
    logarithms = np.full(len(p), NEVER)
    np.log(p, out=logarithms, where=p > 0)
    return torch.from_numpy(logarithms.astype(np.float32))


def ngrams(config: NgramConfig, encoder: Encoder) -> Ngrams:
    """Return the tables of probabilities, with the sizes of the configuration."""
    return Ngrams(config)


NGRAM = System(
    row=MODELS["ngram"],
    encoder=NgramContext,
    spec=ngram_spec,
    objectives={"next_token": ngrams},
    instances=token_streams,
    fit=fit,
)
