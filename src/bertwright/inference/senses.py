"""The senses of a word: its vectors in sentences, by layer, classified and clustered.

A static model has one vector for *bank*, a contextual one a vector for each sentence (Peters et al.
2018, section 5.3; Reif et al. 2019, "Visualizing and measuring the geometry of BERT"). A sense is
predicted by the nearest mean: each sentence's vector is compared by cosine with the mean vector of
each sense's other sentences; where k are equally near it counts 1 / k.
Clusters are k-means on vectors of length 1. `senses.tsv` holds 400 sentences of our own, of 20
words of two senses, ten each.

Letters: n sentences, H width.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from bertwright.arrays import Float32s, Float64s
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference.model import Model
from bertwright.inference.vectors.embed import normalized
from bertwright.progress import OnProgress, silent

_TIE = 1e-5
"""Cosines nearer than this are equal: rounding differs by batch."""


@dataclass(frozen=True)
class Usage:
    """A word in a sentence."""

    word: str
    sense: str
    """"" where it is not known."""
    sentence: str
    start: int
    """Its first character in the sentence."""


def read_usages(path: Path | None = None, words: Sequence[str] = ()) -> list[Usage]:
    """Sentences of words, and their senses if the file has them.

    Args:
        path: columns word, sense and sentence, with tabs between, or sentences, one a line; unset:
            ours.
        words: those of them that are wanted; of plain sentences the one that they have.

    Raises:
        DataError: a sentence without its word, a sense of one sentence, a word that is not there.
        ConfigError: not one word for a file of plain sentences.
    """
    name = "senses.tsv" if path is None else str(path)
    try:
        source = files(__package__) / name if path is None else path
        lines = source.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{name} cannot be read: {error}") from error
    rows = [(number, line.split("\t")) for number, line in enumerate(lines, 1) if line.strip()]
    labelled = bool(rows) and [cell.strip().lower() for cell in rows[0][1]] == [
        "word",
        "sense",
        "sentence",
    ]
    if not labelled and len(words) != 1:
        raise ConfigError(
            f"{name} has no header of word, sense and sentence, so its lines are sentences: name "
            f"the word by --word; {len(words)} came"
        )
    found = []
    for number, cells in rows[labelled:]:
        if labelled and len(cells) != 3:
            raise DataError(f"{name}, line {number}: {len(cells)} columns; expected 3")
        word, sense, sentence = cells if labelled else (words[0], "", " ".join(cells))
        if words and word not in words:
            continue
        at = re.search(rf"\b{re.escape(word)}\b", sentence, re.IGNORECASE)
        if at is None:
            raise DataError(f"{name}, line {number}: the word {word!r} is not in {sentence!r}")
        found.append(Usage(word, sense, sentence, at.start()))
    if not found:
        raise DataError(f"{name} has no sentence of {', '.join(words) or 'any word'}")
    if missing := sorted(set(words) - {usage.word for usage in found}):
        raise DataError(f"{name} has no sentence of {', '.join(missing)}")
    found.sort(key=lambda usage: usage.word)
    for word, own in rows_of_words(found).items():
        sizes = Counter(found[n].sense for n in own)
        if labelled and (len(sizes) < 2 or min(sizes.values()) < 2):
            raise DataError(
                f"{name} has of {word!r} {dict(sizes)}; expected two senses or more, and of each "
                "two sentences or more"
            )
    return found


def vectors_of_usages(
    model: Model, usages: Sequence[Usage], on_progress: OnProgress = silent
) -> list[Float32s]:
    """Each layer's vectors of a word in its n sentences: the mean over its tokens.

    Returns:
        Of each layer from the embeddings `[n, H]`, of length 1.

    Raises:
        DataError: a word of which the tokenizer keeps nothing.
    """
    model.spec.require_vectors()
    found = []
    for layer in range(model.spec.depth + 1):
        config = VectorConfig(layers=(layer,), pooling="none", normalize=False)
        rows = []
        each = model.embedder(config).embed_tokens([usage.sentence for usage in usages])
        for usage, tokens in zip(usages, each, strict=True):
            end = usage.start + len(usage.word)
            spans = enumerate(tokens.offsets)
            own = [n for n, (a, b) in spans if usage.start < b and a < min(b, end)]
            if not own:
                raise DataError(f"this model's tokenizer keeps nothing of {usage.word!r}")
            rows.append(tokens.vectors[own].mean(0))
        found.append(normalized(np.stack(rows)))
        on_progress(layer + 1, model.spec.depth + 1)
    return found


def score_senses(vectors: Float32s, senses: Sequence[str]) -> tuple[float, float]:
    """How well vectors `[n, H]` of one word separate its senses; each sense has two sentences or
    more.

    Returns:
        The accuracy of the nearest mean; the adjusted Rand index of as many clusters as senses: 1
        the senses, 0 chance.
    """
    from sklearn.metrics import adjusted_rand_score

    names = sorted(set(senses))
    members = np.array([[sense == name for sense in senses] for name in names])  # [S, n]
    right = 0.0
    for n, sense in enumerate(senses):
        others = members.copy()
        others[:, n] = False
        means = normalized(np.stack([vectors[rows].mean(0) for rows in others]))
        cosines = means @ vectors[n]
        nearest = cosines > cosines.max() - _TIE
        right += nearest[names.index(sense)] / nearest.sum()
    numbers = [names.index(sense) for sense in senses]
    agreement = adjusted_rand_score(numbers, cluster(vectors, len(names)))
    return right / len(senses), float(agreement)


def cluster(vectors: Float32s, count: int) -> list[int]:
    """The cluster of each of n vectors, the first's 0, and so on."""
    if not 1 <= count <= len(vectors):
        raise ConfigError(f"{count} clusters of {len(vectors)} sentences; expected 1 to all")
    if np.abs(vectors - vectors[0]).max() < _TIE:
        return [0] * len(vectors)  # one point
    from sklearn.cluster import KMeans

    found = KMeans(count, n_init=10, random_state=0).fit_predict(vectors.astype(np.float64))
    order = {number: rank for rank, number in enumerate(dict.fromkeys(found.tolist()))}
    return [order[number] for number in found.tolist()]


def score_words(layers: Sequence[Float32s], usages: Sequence[Usage]) -> Float64s:
    """`score_senses` of each layer and each of W words, as `rows_of_words` has them: `[L, W, 2]`"""
    words = rows_of_words(usages).values()
    return np.array(
        [[score_senses(x[own], [usages[n].sense for n in own]) for own in words] for x in layers]
    )


def cluster_words(vectors: Float32s, usages: Sequence[Usage], count: int) -> list[int]:
    """The cluster of each of n sentences among its word's; `count` where senses are not known."""
    found = [0] * len(usages)
    for rows in rows_of_words(usages).values():
        senses = {usages[n].sense for n in rows} - {""}
        for n, number in zip(rows, cluster(vectors[rows], len(senses) or count), strict=True):
            found[n] = number
    return found


def rows_of_words(usages: Sequence[Usage]) -> Mapping[str, list[int]]:
    """Word -> the numbers of its usages."""
    found: dict[str, list[int]] = {}
    for number, usage in enumerate(usages):
        found.setdefault(usage.word, []).append(number)
    return found
