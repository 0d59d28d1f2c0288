"""Which text is trained on and which is held out: whole documents, or the end of each.

Whole documents are the better test, but one or two of them say little: figures then swing with what
they hold. So where fewer than `FEW_HELD_OUT` documents would be held out, the last part of each
document is, and the `GAP` sentences before it are in neither split, as neighbouring sentences are
alike.
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
"""Of fewer, two held out would be missed in training."""
FEW_HELD_OUT = 8
"""New runs that would hold out fewer documents hold out the ends of all."""
GAP = 10
"""Sentences between what is trained on and what is held out of a document."""
LEAST_HELD_OUT = 2
"""Sentences of a document's end, at least."""
LEAST_BEFORE = 4 * GAP
"""Sentences before the end of a document, at least: a shorter document is trained on whole."""


class SplitText(NamedTuple):
    """The documents of a split; of a corpus whose ends are held out, their parts."""

    shards: Shards
    """The corpus, with the parts of its documents as documents where only parts are of the
    split."""
    documents: Int64s
    """Numbers of the documents of the split in `shards`, rising."""
    numbers: Int64s
    """The number of each of them in the corpus."""


def split_text(
    shards: Shards, split: Split, validation_fraction: float, hold_out: HoldOut | None = None
) -> SplitText:
    """The text of one split; `hold_out` None is `documents`, as in runs that do not name a rule.

    Raises:
        ConfigError: `validation_fraction` is not in [0, 1).
        DataError: no document can be held out, or none is long enough to hold out its end.
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
    # each document is three: what is trained on, the gap, what is held out
    bounds = np.stack([first, last - held_out - gap, last - held_out], axis=1).ravel()
    parts = replace(shards, document_sentences=np.append(bounds, shards.num_sentences))
    numbers = np.arange(shards.num_documents)
    if split == "dev":
        numbers = numbers[held_out > 0]
        return SplitText(parts, 3 * numbers + 2, numbers)
    return SplitText(parts, 3 * numbers, numbers)


def _ends(shards: Shards, validation_fraction: float) -> Int64s:
    """[D]: how many sentences of each document are held out; 0 of one that is too short."""
    sentences = np.diff(shards.document_sentences)
    held_out = np.maximum(LEAST_HELD_OUT, np.ceil(sentences * validation_fraction)).astype(np.int64)
    return np.where(sentences >= LEAST_BEFORE + held_out, held_out, 0)


def rule_of_new_run(shards: Shards, validation_fraction: float) -> HoldOut:
    """How a new run on this corpus holds out text: the ends of documents, if fewer than
    `FEW_HELD_OUT` would be held out and most of them are long enough; else whole documents."""
    if (
        not 0 < validation_fraction < 1
        or shards.num_documents * validation_fraction >= FEW_HELD_OUT
    ):
        return "documents"
    long_enough = (_ends(shards, validation_fraction) > 0).mean()
    return "ends" if long_enough >= 0.5 else "documents"


def described(shards: Shards, validation_fraction: float, hold_out: HoldOut | None) -> str:
    """What is held out, in words, for the page of a run and `data check`; empty: nothing."""
    if validation_fraction == 0:
        return ""
    found, documents, _ = split_text(shards, "dev", validation_fraction, hold_out)
    first, last = (found.document_sentences[documents + n] for n in (0, 1))
    sentences = f"{int((last - first).sum()):,} of {shards.num_sentences:,} sentences"
    if hold_out == "ends":
        return f"the ends of {len(documents):,} of {shards.num_documents:,} documents ({sentences})"
    return f"{len(documents):,} of {shards.num_documents:,} documents ({sentences})"


def split_documents(shards: Shards, split: Split, validation_fraction: float) -> Int64s:
    """The documents of one split, rising.

    A document is held out if the hash of its number is under `validation_fraction`: no seed moves
    it, and a larger fraction only adds documents. Where this would hold out none or all of a small
    corpus, one document is; of twenty and more two are, as a random next sentence is of another
    document.

    Raises:
        ConfigError: `validation_fraction` is not in [0, 1).
        DataError: there is only one document, so none can be held out.
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
