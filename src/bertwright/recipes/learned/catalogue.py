"""The catalogue of pages: for each system, a function that imports the page of its runs.

A page is made after training, by `bertwright report`. Its verdict is also the last line of
`bertwright pretrain`. Both must take only seconds, even for a large run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bertwright.models.catalogue import row_of
from bertwright.recipes.learned.run import FinishedRun
from bertwright.report.verdict import Verdict, pretraining_verdict


@dataclass(frozen=True)
class Page:
    """The functions that make the page of a system's runs."""

    examine: Callable[[FinishedRun], dict[str, Any]]
    """Returns `examples.json` without `step` and `verdict`; see `report/read.py`."""
    verdict: Callable[[FinishedRun], Verdict]
    """Returns whether the model has learned more than a prediction without a model."""
    reads_held_out: bool = True
    """Whether held-out text is needed. If so, a run without it is not examined."""


def _bert() -> Page:
    from bertwright.recipes.learned import bert

    return Page(bert.examine, bert.verdict)


def _ngram() -> Page:
    from bertwright.recipes.learned import ngram

    return Page(ngram.examine, ngram.verdict)


def _language_model() -> Page:
    from bertwright.recipes.learned import language_models

    return Page(language_models.examine, language_models.verdict)


def _word_vectors() -> Page:
    from bertwright.recipes.learned import word_vectors

    return Page(word_vectors.examine, word_vectors.verdict, reads_held_out=False)


def _layers() -> Page:
    from bertwright.recipes.learned import layers

    return Page(layers.examine, layers.verdict)


def _translation() -> Page:
    from bertwright.recipes.learned import translation

    return Page(translation.examine, translation.verdict)


def _memory_network() -> Page:
    from bertwright.recipes.learned import memory_network

    return Page(memory_network.examine, memory_network.verdict)


LEARNED: dict[str, Callable[[], Page]] = {
    "bert": _bert,
    "roberta": _bert,
    "albert": _bert,
    "modernbert": _bert,
    "bert-ltr": _language_model,
    "transformer": _translation,
    "bert2rnd": _translation,
    "seq2seq": _translation,
    "awd-lstm": _language_model,
    "elmo": _layers,
    "gpt": _language_model,
    "gpt2": _language_model,
    "memory-network": _memory_network,
    "ngram": _ngram,
    "nnlm": _language_model,
    "word2vec": _word_vectors,
    "fasttext": _word_vectors,
    "glove": _word_vectors,
}
"""The function for the page of each system. Pages of other systems have only the log's curves."""


def page_of(run: FinishedRun) -> Page:
    """Return the page of a run's system."""
    load = LEARNED.get(row_of(run.config).name, _plain)
    return load()


def _plain() -> Page:
    return Page(lambda run: {"baselines": {}}, lambda run: pretraining_verdict(run.records))
