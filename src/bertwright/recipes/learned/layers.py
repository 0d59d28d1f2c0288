"""Examine the layers of a contextual model: ELMo, TagLM's language model, CoVe's encoder.

The probe is word senses (`inference/senses.py`): 400 English sentences of our own, with 20 words of
two senses each. A layer is right if the vector of a word in its sentence is nearer to the mean of
the word's sense than to that of the other sense. The embeddings, which are the same in every
sentence, are right only by chance, so the difference is what a layer has learned about context.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bertwright.arrays import Float64s
from bertwright.errors import BertwrightError
from bertwright.inference.senses import (
    WordUsage,
    read_usages,
    rows_of_words,
    score_words,
    vectors_of_usages,
)
from bertwright.recipes.learned.run import FinishedRun
from bertwright.report import sections
from bertwright.report.verdict import Verdict, pretraining_verdict

LEAST = 5
"""The minimum number of words of the probe that the vocabulary must have."""


def examine(run: FinishedRun) -> dict[str, Any]:
    """Return the content of `examples.json`: the accuracy of the probe by layer."""
    level = _level(run)
    probe = senses_by_layer(run)
    return {
        "baselines": {"next_token.accuracy": level},
        "sections": [] if probe is None else [probe],
    }


def verdict(run: FinishedRun) -> Verdict:
    """Return whether the language models predict better than the most frequent token, and whether a
    layer tells word senses better than the embeddings do.
    """
    level = {"next_token.accuracy": _level(run)}
    return pretraining_verdict(run.records, level, further=lambda: _senses(run))


def _senses(run: FinishedRun) -> tuple[bool, str] | None:
    """Return whether a layer tells word senses better than the embeddings do, and both accuracies
    in words; None as `_probe`.
    """
    probe = run.once(_probe)
    if probe is None:
        return None
    figures = (
        f"word senses told apart by {probe.name_of_best} {probe.means[probe.best]:.1%} "
        f"± {100 * probe.errors[probe.best]:.1f}, by the embeddings {probe.means[0]:.1%}"
    )
    if probe.tells_senses:
        return True, figures
    return False, f"but no layer tells senses clearly better than the embeddings: {figures}"


class Probe(NamedTuple):
    """The accuracy of each layer on word senses, from the embeddings upwards."""

    means: Float64s
    errors: Float64s
    """The standard errors over words."""
    words: int
    sentences: int

    @property
    def names(self) -> list[str]:
        """The names of the layers."""
        return ["embeddings", *(f"layer {n}" for n in range(1, len(self.means)))]

    @property
    def best(self) -> int:
        """The layer with the highest accuracy."""
        return int(self.means.argmax())

    @property
    def name_of_best(self) -> str:
        """The name of the layer with the highest mean."""
        return self.names[self.best]

    @property
    def tells_senses(self) -> bool:
        """Whether it is clearly better than the embeddings."""
        gain = self.means[self.best] - self.means[0]
        return bool(self.best and gain > 2 * self.errors[self.best])


def _probe(run: FinishedRun) -> Probe | None:
    """Return the accuracy of the layers; None if the vocabulary has too few of the words, as in
    another language.
    """
    usages = _known(run)
    words = list(rows_of_words(usages))
    if len(words) < LEAST:
        return None
    try:
        layers = vectors_of_usages(run.model, usages)
    except BertwrightError:  # the tokenizer removes all of a word
        return None
    by_word = score_words(layers, usages)[:, :, 0]  # [L, W]
    errors = by_word.std(1) / len(words) ** 0.5
    return Probe(by_word.mean(1), errors, len(words), len(usages))


def senses_by_layer(run: FinishedRun) -> sections.Section | None:
    """Return a table of how well each layer distinguishes word senses; None as `_probe`."""
    probe = run.once(_probe)
    if probe is None:
        return None
    rows = [
        [name, f"{mean:.1%} ± {100 * error:.1f}", f"{100 * (mean - probe.means[0]):+.1f}"]
        for name, mean, error in zip(probe.names, probe.means, probe.errors, strict=True)
    ]
    if probe.tells_senses:
        best = probe.name_of_best.capitalize()
        conclusion = f"{best} tells senses best: context is in its vectors."
    else:
        conclusion = "No layer tells senses clearly better than the embeddings do."
    note = (
        f"The sense of {probe.words} English words in {probe.sentences} sentences of our own, by "
        "the nearest mean of the other sentences: two senses each, 50% by chance (± is the "
        f"standard error over words). {conclusion}"
    )
    columns = ["layer", "senses told apart", "points above the embeddings"]
    return sections.table("What the layers are worth", columns, rows, note, numbers=(1, 2))


def _known(run: FinishedRun) -> list[WordUsage]:
    """Return the sentences of the probe whose ambiguous word is in the vocabulary."""
    tokenizer = run.tokenizer
    unknown = tokenizer.special.get("unk")
    usages = read_usages()
    words = {usage.word for usage in usages}
    known = {word for word in words if unknown not in tokenizer.encode_bare_ids([word])[0]}
    return [usage for usage in usages if usage.word in known]


def _level(run: FinishedRun) -> float:
    """Return the relative frequency of the most frequent token in training text."""
    counts = run.frequencies[0]
    return float(counts.max() / max(1, counts.sum()))
