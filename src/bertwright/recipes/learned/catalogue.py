"""The catalogue of pages: system -> a function that imports what the page of its runs shows.

A page is made after training, by `bertwright report`; its verdict is also the last line of
`bertwright pretrain`. Both must be cheap: seconds, whatever the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bertwright.models.catalogue import system_of
from bertwright.recipes.learned.run import FinishedRun
from bertwright.report.verdict import Verdict, pretraining_verdict


@dataclass(frozen=True)
class Page:
    """What the page of a system's runs shows of the model."""

    examine: Callable[[FinishedRun], dict[str, Any]]
    """The content of `examples.json`, without `step` and `verdict`; see `report/read.py`."""
    verdict: Callable[[FinishedRun], Verdict]
    """Whether the model has learned, beside what needs no model."""
    reads_held_out: bool = True
    """Whether there is nothing to show of a run that holds out no text."""


def _bert() -> Page:
    from bertwright.recipes.learned import bert

    return Page(bert.examine_run, bert.verdict)


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
    "xlm-roberta": _bert,
    "camembert": _bert,
    "distilbert": _bert,
    "albert": _bert,
    "mpnet": _bert,
    "modernbert": _bert,
    "bert-ltr": _language_model,
    "transformer": _translation,
    "bert2rnd": _translation,
    "seq2seq": _translation,
    "awd-lstm": _language_model,
    "elmo": _layers,
    "openai-gpt": _language_model,
    "gpt2": _language_model,
    "memory-network": _memory_network,
    "ngram": _ngram,
    "nnlm": _language_model,
    "word2vec": _word_vectors,
    "fasttext": _word_vectors,
    "glove": _word_vectors,
}
"""System -> its page; one that is not here has the curves of its log alone."""


def page_of(run: FinishedRun) -> Page:
    """Return the page of a run's system."""
    load = LEARNED.get(system_of(run.config).name, _plain)
    return load()


def _plain() -> Page:
    return Page(lambda run: {"baselines": {}}, lambda run: pretraining_verdict(run.records))
