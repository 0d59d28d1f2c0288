"""Split a corpus into training text and held-out text: whole documents, or the end of each.

Whole documents are the better test, but the metrics on one or two of them depend too much on what
these happen to contain. If fewer than `FEW_HELD_OUT` documents would be held out, the last part of
each document is held out instead. The `GAP` sentences before it are in neither split, because
neighbouring sentences are alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from bertwright.arrays import Int64s
from bertwright.config.run import HoldOut
from bertwright.data.randomness import make_key, mix, uniform
from bertwright.data.shards import Shards
from bertwright.errors import ConfigError, DataError

Split = Literal["train", "dev"]
FEW_DOCUMENTS = 20
"""A corpus of at least this many documents holds out two or more of them; a smaller one may hold
out one, because training needs the others."""
FEW_HELD_OUT = 8
"""New runs that would hold out fewer documents than this hold out the ends of all documents."""
GAP = 10
"""The number of sentences between the training text and the held-out text of a document."""
LEAST_HELD_OUT = 2
"""The minimum number of sentences that are held out at the end of a document."""
LEAST_BEFORE = 4 * GAP
"""The minimum number of sentences before the held-out end of a document. A shorter document is
trained on whole."""


class SplitText(NamedTuple):
    """The documents of a split, or the parts of documents if the ends are held out."""

    shards: Shards
    """The corpus. If the ends are held out, its documents are the parts of the corpus's
    documents."""
    documents: Int64s
    """The numbers of the split's documents in `shards`, in ascending order."""
    numbers: Int64s
    """The number in the corpus of the document that each of them is, or is a part of."""


def split_text(
    shards: Shards, split: Split, validation_fraction: float, hold_out: HoldOut | None = None
) -> SplitText:
    """Return the text of one split.

    A `hold_out` of None means `documents`, for runs whose configuration does not name a rule.
    """
    if hold_out != "ends" or validation_fraction == 0:
        documents = split_documents(shards, split, validation_fraction)
        return SplitText(shards, documents, documents)
    held_out = _ends(shards, validation_fraction)
    if not held_out.any():
        raise DataError(
            f"{shards.folder} has no document of {LEAST_BEFORE + LEAST_HELD_OUT} sentences, "
            "so the ends of none can be held out: pass --validation.hold-out documents"
        )
    first, last = shards.document_sentences[:-1], shards.document_sentences[1:]
    gap = np.where(held_out, GAP, 0)
    # each document becomes three: the training text, the gap, the held-out text
    bounds = np.stack([first, last - held_out - gap, last - held_out], axis=1).ravel()
    parts = replace(shards, document_sentences=np.append(bounds, shards.num_sentences))
    numbers = np.arange(shards.num_documents)
    if split == "dev":
        numbers = numbers[held_out > 0]
        return SplitText(parts, 3 * numbers + 2, numbers)
    return SplitText(parts, 3 * numbers, numbers)


def _ends(shards: Shards, validation_fraction: float) -> Int64s:
    """Return the number of held-out sentences of each document, `[D]`; 0 if it is too short."""
    sentences = np.diff(shards.document_sentences)
    held_out = np.maximum(LEAST_HELD_OUT, np.ceil(sentences * validation_fraction)).astype(np.int64)
    return np.where(sentences >= LEAST_BEFORE + held_out, held_out, 0)


def rule_of_new_run(shards: Shards, validation_fraction: float) -> HoldOut:
    """Return how a new run on this corpus holds out text.

    It holds out the ends of documents if fewer than `FEW_HELD_OUT` documents would be held out and
    at least half of the corpus's documents are long enough; otherwise it holds out whole documents.
    """
    if (
        not 0 < validation_fraction < 1
        or shards.num_documents * validation_fraction >= FEW_HELD_OUT
    ):
        return "documents"
    long_enough = (_ends(shards, validation_fraction) > 0).mean()
    return "ends" if long_enough >= 0.5 else "documents"


def described(shards: Shards, validation_fraction: float, hold_out: HoldOut | None) -> str:
    """Return a description of the held-out text, for a run's page and for `data check`; empty if
    nothing is held out.
    """
    if validation_fraction == 0:
        return ""
    found, documents, _ = split_text(shards, "dev", validation_fraction, hold_out)
    first, last = (found.document_sentences[documents + n] for n in (0, 1))
    sentences = f"{int((last - first).sum()):,} of {shards.num_sentences:,} sentences"
    if hold_out == "ends":
        return f"the ends of {len(documents):,} of {shards.num_documents:,} documents ({sentences})"
    return f"{len(documents):,} of {shards.num_documents:,} documents ({sentences})"


def split_documents(shards: Shards, split: Split, validation_fraction: float) -> Int64s:
    """Return the numbers of one split's documents, in ascending order.

    A document is held out if the hash of its number is below `validation_fraction`. So the split
    does not depend on a seed, and a larger fraction only adds documents. If this would hold out no
    document or all documents of a small corpus, one is held out. Of a corpus of `FEW_DOCUMENTS` or
    more, at least two are held out, because a random next sentence comes from another document.
    """
    if not 0 <= validation_fraction < 1:
        raise ConfigError(
            f"validation_fraction is {validation_fraction}; expected a fraction from 0 to under 1"
        )
    count = shards.num_documents
    draws = uniform(mix(make_key("validation"), np.arange(count)))
    held_out = draws < validation_fraction
    least = 2 if count >= FEW_DOCUMENTS else 1
    if validation_fraction > 0 and (held_out.sum() < least or held_out.all()):
        if count < 2:
            raise DataError(
                f"{shards.folder} has one document, so none can be held out: is the blank line "
                "between documents missing (--documents line|file)? Otherwise pass "
                "--validation.fraction 0"
            )
        held_out = np.isin(np.arange(count), np.argsort(draws)[:least])
    if split == "dev" and not held_out.any():
        raise DataError("validation_fraction is 0: there are no held-out documents to evaluate on")
    return np.flatnonzero(held_out if split == "dev" else ~held_out)
