"""Examine the layers of a contextual model: ELMo, TagLM's language model, CoVe's encoder.

The probe is word senses (`inference/senses.py`): 400 English sentences of our own, with 20 words of
two senses each. A layer is right if the vector of a word in its sentence is nearer to the mean of
the word's sense than to that of the other sense. The embeddings, which are the same in every
sentence, are right only by chance, so the difference is what a layer has learned about context.
"""

from __future__ import annotations

from typing import Any

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
    """Return whether the language models predict better than the most frequent token."""
    return pretraining_verdict(run.records, {"next_token.accuracy": _level(run)})


def senses_by_layer(run: FinishedRun) -> sections.Section | None:
    """Return a table of how well each layer distinguishes word senses.

    The result is None if the vocabulary has too few of the words, as in another language.
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
    means, errors = by_word.mean(1), by_word.std(1) / len(words) ** 0.5
    names = ["embeddings", *(f"layer {n}" for n in range(1, len(layers)))]
    rows = [
        [name, f"{mean:.1%} ± {100 * error:.1f}", f"{100 * (mean - means[0]):+.1f}"]
        for name, mean, error in zip(names, means, errors, strict=True)
    ]
    best = int(means.argmax())
    if best and means[best] - means[0] > 2 * errors[best]:
        conclusion = f"{names[best].capitalize()} tells senses best: context is in its vectors."
    else:
        conclusion = "No layer tells senses clearly better than the embeddings do."
    note = (
        f"The sense of {len(words)} English words in {len(usages)} sentences of our own, by the "
        "nearest mean of the other sentences: two senses each, 50% by chance (± is the standard "
        f"error over words). {conclusion}"
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
