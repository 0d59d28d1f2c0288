"""Classify and cluster the senses of a word by its vectors in sentences, layer by layer.

A static model has one vector for *bank*; a contextual one has a vector for each sentence (Peters et
al. 2018, section 5.3; Reif et al. 2019, "Visualizing and measuring the geometry of BERT"). A sense
is predicted by the nearest mean: each sentence's vector is compared by cosine with the mean vector
of each sense's other sentences; if k senses are equally near, a hit counts 1 / k. Clusters are
k-means on vectors of length 1. `senses.tsv` holds 400 sentences of our own: 20 words with two
senses, ten sentences each.

Letters: n sentences, H width.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.columns import plain
from bertwright.rows.lines import ByteCounts
from bertwright.rows.read import open_rows, read_table

_TIE = 1e-5
"""Cosines that differ by less than this are equal, because rounding differs between batches."""


@dataclass(frozen=True)
class WordUsage:
    """A word in a sentence."""

    word: str
    sense: str
    """The sense; empty if it is not known."""
    sentence: str
    start: int
    """The word's first character in the sentence."""


COLUMNS = ("word", "sense", "sentence")


def read_usages(
    path: Path | None = None, words: Sequence[str] = (), counts: ByteCounts | None = None
) -> list[WordUsage]:
    """Read sentences, each with a word and, if the file has it, the word's sense.

    Args:
        path: a table with the columns word, sense and sentence, or a file with one sentence in each
            line; None: the `senses.tsv` of this package.
        words: the words that are wanted; for plain sentences, the one word that they contain.
        counts: receives what the bytes of the file were.

    Raises:
        DataError: a sentence does not contain its word, a sense has only one sentence, or a word is
            not in the file.
        ConfigError: not exactly one word is named for a file of plain sentences.
    """
    path = Path(str(files(__package__) / "senses.tsv")) if path is None else path
    name = path.name if path.parent == Path(str(files(__package__))) else str(path)
    labelled, rows = _rows(path, words, counts)
    usages = []
    for place, (word, sense, sentence) in rows:
        if words and word not in words:
            continue
        at = re.search(rf"\b{re.escape(word)}\b", sentence, re.IGNORECASE)
        if at is None:
            raise DataError(f"{place}: the word {word!r} is not in {sentence!r}")
        usages.append(WordUsage(word, sense, sentence, at.start()))
    if not usages:
        raise DataError(f"{name} has no sentence of {', '.join(words) or 'any word'}")
    if missing := sorted(set(words) - {usage.word for usage in usages}):
        raise DataError(f"{name} has no sentence of {', '.join(missing)}")
    usages.sort(key=lambda usage: usage.word)
    for word, of_word in rows_of_words(usages).items():
        sizes = Counter(usages[n].sense for n in of_word)
        if labelled and (len(sizes) < 2 or min(sizes.values()) < 2):
            raise DataError(
                f"{name} has for {word!r} the senses {dict(sizes)}; expected two senses or more, "
                "with two sentences or more each"
            )
    return usages


def _rows(
    path: Path, words: Sequence[str], counts: ByteCounts | None
) -> tuple[bool, Iterator[tuple[str, list[str]]]]:
    """Return whether the senses are known, and the place, word, sense and sentence of each row."""
    file, log = open_rows(path, COLUMNS, counts=counts), BadRowLog(str(path), option=False)
    if {*COLUMNS} <= {*map(plain, re.split(r"[\t,;]", file.lines.first))}:
        table = read_table(file, COLUMNS, log)
        rows = table.rows([table.named(name, "") for name in COLUMNS])
        return True, ((log.at(number), cells) for number, cells in rows)
    if len(words) != 1:
        raise ConfigError(
            f"{file.name} has no header of word, sense and sentence, so its lines are sentences: "
            f"name the word by --word; got {len(words)} words"
        )
    lines = ((log.at(n), line) for n, line in file.lines.numbered() if line.strip())
    return False, ((place, [words[0], "", line.replace("\t", " ")]) for place, line in lines)


def vectors_of_usages(
    model: Model, usages: Sequence[WordUsage], on_progress: OnProgress = silent
) -> list[Float32s]:
    """Return the vector of each usage at each layer: the mean over the tokens of the word.

    Returns:
        `[n, H]` for each layer from the embeddings up. The vectors have length 1.

    Raises:
        DataError: the tokenizer gives no token for a word.
    """
    model.spec.require_vectors()
    layers = []
    for layer in range(model.spec.depth + 1):
        config = VectorConfig(layers=(layer,), pooling="none", normalize=False)
        rows = []
        each = model.embedder(config).embed_tokens([usage.sentence for usage in usages])
        for usage, tokens in zip(usages, each, strict=True):
            end = usage.start + len(usage.word)
            spans = enumerate(tokens.offsets)
            of_word = [n for n, (a, b) in spans if usage.start < b and a < min(b, end)]
            if not of_word:
                raise DataError(f"this model's tokenizer gives no token for {usage.word!r}")
            rows.append(tokens.vectors[of_word].mean(0))
        layers.append(normalized(np.stack(rows)))
        on_progress(layer + 1, model.spec.depth + 1)
    return layers


def score_senses(vectors: Float32s, senses: Sequence[str]) -> tuple[float, float]:
    """Return how well the vectors `[n, H]` of one word separate its senses; each sense needs two
    sentences or more.

    Returns:
        The accuracy of the nearest mean, and the adjusted Rand index of as many clusters as senses:
        1 if they are the senses, 0 by chance.
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
    """Return the cluster of each of n vectors, numbered from 0 in the order of first occurrence."""
    if not 1 <= count <= len(vectors):
        raise ConfigError(f"{count} clusters of {len(vectors)} sentences; expected 1 to all")
    if np.abs(vectors - vectors[0]).max() < _TIE:
        return [0] * len(vectors)  # all vectors are the same
    from sklearn.cluster import KMeans

    labels = KMeans(count, n_init=10, random_state=0).fit_predict(vectors.astype(np.float64))
    order = {number: rank for rank, number in enumerate(dict.fromkeys(labels.tolist()))}
    return [order[number] for number in labels.tolist()]


def score_words(layers: Sequence[Float32s], usages: Sequence[WordUsage]) -> Float64s:
    """Return `score_senses` for each layer and each of W words, in the order of `rows_of_words`:
    `[L, W, 2]`.
    """
    words = rows_of_words(usages).values()
    return np.array(
        [[score_senses(x[own], [usages[n].sense for n in own]) for own in words] for x in layers]
    )


def cluster_words(vectors: Float32s, usages: Sequence[WordUsage], count: int) -> list[int]:
    """Return the cluster of each of n sentences among those of its word; `count` clusters if senses
    are not known.
    """
    clusters = [0] * len(usages)
    for rows in rows_of_words(usages).values():
        senses = {usages[n].sense for n in rows} - {""}
        for n, number in zip(rows, cluster(vectors[rows], len(senses) or count), strict=True):
            clusters[n] = number
    return clusters


def rows_of_words(usages: Sequence[WordUsage]) -> Mapping[str, list[int]]:
    """Return word -> the indices of its usages."""
    rows: dict[str, list[int]] = {}
    for number, usage in enumerate(usages):
        rows.setdefault(usage.word, []).append(number)
    return rows
