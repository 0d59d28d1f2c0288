"""What words alone say of a text or a pair: TF-IDF and a linear model.

Features of a text: TF-IDF of words and of pairs of neighbouring words, with 1 + log of the counts;
of characters, one to three, where texts are mostly Chinese. Features of a pair: those of each text,
their absolute difference and their product, and how much the two overlap (cosines, shared words,
lengths, numbers), as a careful person would do without a BERT. The model is logistic regression
(one against the rest for label sets), or ridge regression for numbers, of the overlap alone for
pairs: their similarity is what such tasks ask for.

Source: Wang and Manning, "Baselines and Bigrams" (ACL 2012), for bigrams under a linear model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from bertwright.arrays import Float64s
from bertwright.config.task import TaskConfig
from bertwright.labelled.examples import TextExample
from bertwright.labelled.script import is_mostly_chinese
from bertwright.tasks.predictions import NumberPrediction, TextPrediction

STRENGTHS = (0.3, 1.0, 10.0)
"""C of logistic regression, the best of which is found on a fifth of the training set held out."""

ENOUGH_TO_CHOOSE = 200
"""Examples; with fewer the largest C is taken, which suits small sets."""

NO_WORDS = ("...", "...")
"""Added to what TF-IDF is fitted on: it refuses texts without a single word."""

_NUMBERS = re.compile(r"\d+")


def predict_labels(
    task: TaskConfig, train: Sequence[TextExample], dev: Sequence[TextExample], seed: int
) -> list[TextPrediction]:
    """Classes or label sets of `dev` by TF-IDF and logistic regression learned on `train`."""
    x, x_dev = _features(train, dev)
    if task.multi_label:
        held = np.array([[label in cast(Any, e.label) for label in task.labels] for e in train])
        columns = [_probabilities(x, column, x_dev, seed)[:, -1] for column in held.T]
        return [label_set(task, row) for row in np.stack(columns, axis=1)]
    numbers = {label: number for number, label in enumerate(task.labels)}
    gold = np.array([numbers[cast(str, e.label)] for e in train])
    found = np.zeros((len(dev), len(task.labels)))
    found[:, np.unique(gold)] = _probabilities(x, gold, x_dev, seed, single=True)
    return [one_label(task, row) for row in found]


def predict_numbers(
    train: Sequence[TextExample], dev: Sequence[TextExample]
) -> list[NumberPrediction]:
    """Numbers of `dev` by ridge regression learned on `train`, within the range of the latter."""
    from sklearn.linear_model import Ridge

    x, x_dev = overlaps(train, dev) if is_of_pairs(train) else _features(train, dev)
    gold = np.array([cast(float, e.label) for e in train], dtype=np.float64)
    said = Ridge(alpha=1.0).fit(x, gold).predict(x_dev)
    return [NumberPrediction(v) for v in np.clip(said, gold.min(), gold.max()).tolist()]


def one_label(task: TaskConfig, scores: Float64s) -> TextPrediction:
    """The likeliest class of scores [C]."""
    named = dict(zip(task.labels, scores.tolist(), strict=True))
    return TextPrediction(task.labels[int(scores.argmax())], named)


def label_set(task: TaskConfig, scores: Float64s) -> TextPrediction:
    """The labels whose probability is 0.5 or more, of scores [C]."""
    named = dict(zip(task.labels, scores.tolist(), strict=True))
    return TextPrediction(tuple(label for label, p in named.items() if p >= 0.5), named)


def _probabilities(x: Any, gold: Any, x_dev: Any, seed: int, single: bool = False) -> Float64s:
    """Probability of each class that `gold` has, [E, classes]; certain where it has one only."""
    known, numbers = np.unique(gold, return_counts=True)
    if len(known) == 1:
        return np.full((x_dev.shape[0], 1), 1.0 if single else float(known[0]))
    strength = STRENGTHS[-1]
    if len(gold) >= ENOUGH_TO_CHOOSE and numbers.min() > 1:
        order = np.random.default_rng(seed).permutation(len(gold))
        held, rest = order[: len(gold) // 5], order[len(gold) // 5 :]
        if len(np.unique(gold[rest])) == len(known):
            found = [_model(s, known, seed).fit(x[rest], gold[rest]) for s in STRENGTHS]
            strength = STRENGTHS[int(np.argmax([m.score(x[held], gold[held]) for m in found]))]
    chances: Float64s = _model(strength, known, seed).fit(x, gold).predict_proba(x_dev)
    return chances


def _model(strength: float, known: Any, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    solver = "liblinear" if len(known) == 2 else "lbfgs"
    return LogisticRegression(C=strength, solver=solver, max_iter=200, tol=1e-3, random_state=seed)


def _vectorizer(texts: Sequence[str]) -> Any:
    """TF-IDF fitted on `texts`: of words and pairs of words, or of Chinese characters."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    # what is seen once says little and is most of all; a small file has little else
    rarest = 2 if len(texts) > 1000 else 1
    settings: dict[str, Any] = {"sublinear_tf": True, "min_df": rarest}
    texts = [*texts, *NO_WORDS]
    if is_mostly_chinese(texts[:1000]):
        return TfidfVectorizer(analyzer="char", ngram_range=(1, 2), **settings).fit(texts)
    pattern = r"\w+|[^\w\s]"
    return TfidfVectorizer(token_pattern=pattern, ngram_range=(1, 2), **settings).fit(texts)


def _features(train: Sequence[TextExample], dev: Sequence[TextExample]) -> tuple[Any, Any]:
    """Sparse features of both, [E, F] each."""
    from scipy.sparse import csr_matrix, hstack

    words = _vectorizer(_texts(train))
    if not is_of_pairs(train):
        return words.transform([e.text for e in train]), words.transform([e.text for e in dev])
    found = []
    for side, overlap in zip((train, dev), overlaps(train, dev), strict=True):
        x = words.transform([e.text for e in side])
        y = words.transform([e.text2 or "" for e in side])
        found.append(hstack([x, y, abs(x - y), x.multiply(y), csr_matrix(overlap)]).tocsr())
    return found[0], found[1]


def is_of_pairs(examples: Sequence[TextExample]) -> bool:
    """Whether any example has a second text."""
    return any(e.text2 is not None for e in examples)


def _texts(examples: Sequence[TextExample]) -> list[str]:
    """All texts, first and second."""
    return [e.text for e in examples] + [e.text2 for e in examples if e.text2 is not None]


def overlaps(train: Sequence[TextExample], dev: Sequence[TextExample]) -> tuple[Float64s, Float64s]:
    """How much the two texts of each pair share, [E, 7] each, scaled by what `train` has.

    Cosines of words and of runs of three characters (both TF-IDF of `train`), the share of each
    text's words that the other has, the ratio and the difference of lengths, and whether the same
    numbers are in both.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import StandardScaler

    texts = _texts(train)
    words = _vectorizer(texts)
    size = (1, 3) if is_mostly_chinese(texts[:1000]) else (3, 3)
    runs = TfidfVectorizer(analyzer="char", ngram_range=size, sublinear_tf=True).fit(
        [*texts, *NO_WORDS]
    )
    found = []
    for side in (train, dev):
        first, second = [e.text for e in side], [e.text2 or "" for e in side]
        columns = []
        for model in (words, runs):
            columns.append(_row_dot(model.transform(first), model.transform(second)))
        here, there = (words.transform(each).sign() for each in (first, second))
        both = _row_dot(here, there)
        columns += [both / np.maximum(1, _row_dot(x, x)) for x in (here, there)]
        lengths = np.array([[len(a), len(b)] for a, b in zip(first, second, strict=True)]) + 1.0
        columns += [np.log(lengths[:, 0] / lengths[:, 1]), np.log1p(abs(lengths @ [1, -1]))]
        pairs = zip(first, second, strict=True)
        same = [set(_NUMBERS.findall(a)) == set(_NUMBERS.findall(b)) for a, b in pairs]
        columns.append(np.array(same, dtype=np.float64))
        found.append(np.stack(columns, axis=1))
    scale = StandardScaler().fit(found[0])
    return scale.transform(found[0]), scale.transform(found[1])


def _row_dot(x: Any, y: Any) -> Float64s:
    """The product of each row of x with the same row of y."""
    return np.asarray(x.multiply(y).sum(axis=1), dtype=np.float64).ravel()
