"""Examine what a language model has learned: NNLM, AWD-LSTM, GPT, left-to-right BERT.

The model is compared with an n-gram model of the same training text, which is counted in seconds. A
neural language model that does not predict better was not worth its training yet. All results are
those of the same predictions, which are those of the run's validation.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bertwright.errors import BertwrightError
from bertwright.inference.generate import generates
from bertwright.inference.score import score_ids
from bertwright.nn.objective import Learner
from bertwright.recipes.learned.ngram import (
    ORDER,
    Counted,
    Losses,
    continuations,
    count,
    losses,
    model_of,
    runner_of,
)
from bertwright.recipes.learned.run import FinishedRun, decoded_sentences
from bertwright.report import sections
from bertwright.report.verdict import Verdict

_CLEAR = 0.01
"""The fraction by which the bits must be lower to count as better."""


class Compared(NamedTuple):
    """The losses of a model, and of n-gram models of its training text, on its validation."""

    own: Losses
    ngram: Losses
    unigram: Losses
    order: int
    learner: Learner
    """The n-gram model."""
    counted: Counted


def compare(run: FinishedRun) -> Compared:
    """Evaluate n-gram models of a run's training text, and read the model's loss from the log."""
    counted = count(run, {1, 2, ORDER})
    order = max(counted.tables)
    learners = [model_of(counted.tables[k], run.shards.vocab_size) for k in (1, order)]
    unigram, ngram = losses(run, learners)
    nats = float(run.last["next_token.loss"]) * ngram.predictions
    own = Losses(nats, ngram.predictions, ngram.characters)
    return Compared(own, ngram, unigram, order, learners[1], counted)


def examine(run: FinishedRun) -> dict[str, Any]:
    """Return the content of `examples.json`: bits per character, continuations, and surprisal."""
    found = run.once(compare)
    note = (
        f"Bits a character of {run.validation_text}: {found.own.predictions:,} predictions; lower "
        "is better. "
        f"The {found.order}-gram model (Kneser-Ney) was counted on {found.counted.of_what}."
    )
    unknown = _unknown(run)
    if unknown > 0.005:
        note += (
            f" {unknown:.1%} of the tokens are unknown words, which are cheap to predict: do not "
            "compare with a model of another vocabulary."
        )
    ngram_name = f"a {found.order}-gram of the same text"
    figures = {
        "this model": found.own.bits,
        ngram_name: found.ngram.bits,
        "token frequencies": found.unigram.bits,
    }
    shown = [sections.bars("Bits a character", figures, False, note, lower=True)]
    beside = runner_of(run, found.learner)
    if generates(run.model.runner):
        runners = {"this model": run.model.runner, f"the {found.order}-gram": beside}
        if (continued := continuations(run, runners)) is not None:
            shown.append(continued)
    if (picture := _surprisal(run, found)) is not None:
        shown.append(picture)
    level = float(run.frequencies[0].max() / run.frequencies[0].sum())
    baselines = {
        "next_token.accuracy": level,
        "next_token.loss": found.ngram.nats / found.ngram.predictions,
    }
    return {"baselines": baselines, "sections": shown}


def verdict(run: FinishedRun) -> Verdict:
    """Return whether a language model predicts held-out text better than an n-gram model does.

    The n-gram model is one of its training text. The verdict is `perhaps` if the language model is
    only better than token frequencies.
    """
    if not run.last or "next_token.loss" not in run.last:
        return Verdict(
            "unknown",
            "Whether it has learned is not known: nothing is held out to measure it on "
            "(--validation.fraction).",
        )
    found = run.once(compare)
    own, ngram, unigram = (each.bits for each in (found.own, found.ngram, found.unigram))
    figures = (
        f"{own:.2f} bits a character on its validation text, a {found.order}-gram of the same text "
        f"{ngram:.2f}, token frequencies {unigram:.2f}."
    )
    longer = "Train longer (--minutes or --steps)"
    if own < ngram * (1 - _CLEAR):
        return Verdict("yes", f"It has learned: {figures}")
    if own < unigram * (1 - _CLEAR):
        return Verdict("perhaps", f"It has learned a part: {figures} {longer}.")
    return Verdict(
        "no",
        f"It has learned nothing yet: {figures} {longer}; if that changes nothing, there is too "
        "little text, or something is wrong with it: bertwright data check says which.",
    )


def _surprisal(run: FinishedRun, found: Compared) -> sections.Section | None:
    """Return the section with the bits of each token of a held-out sentence; None without one."""
    sentences = decoded_sentences(run, 8, 26, 1)
    if not sentences:
        return None
    tokenizer = run.tokenizer
    framed = tokenizer.framing.one(sentences[0][0])
    series = {}
    tokens: list[int] = []
    beside = runner_of(run, found.learner)
    for name, runner in (("this model", run.model.runner), (f"{found.order}-gram", beside)):
        try:
            (score,) = score_ids(runner, [framed])
        except BertwrightError:
            return None
        series[name] = (-np.asarray(score.log_probabilities) / math.log(2)).tolist()
        tokens = score.tokens
    note = (
        "The bits of each token of a held-out sentence: -log2 of the probability that a model gave "
        "it, given what stands before. High columns are surprises."
    )
    return sections.surprisal("Surprisal", tokenizer.tokens_of(tokens), series, note)


def _unknown(run: FinishedRun) -> float:
    """Return the fraction of the training tokens that are unknown words."""
    counts = run.frequencies[0]
    unknown = run.tokenizer.special.get("unk")
    return 0.0 if unknown is None else float(counts[unknown] / max(1, counts.sum()))
