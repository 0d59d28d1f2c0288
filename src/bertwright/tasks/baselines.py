"""Simple baselines for fine-tuning: models on the same files, evaluated with the same metrics.

Texts are classified by TF-IDF of words and bigrams, with 1 + log of the counts (Wang and Manning,
"Baselines and Bigrams", ACL 2012), or of one and two characters if most letters belong to a script
without blanks. If there is little text, the features are also those of three to five characters
inside words. For few examples, C is selected by cross-validation. The features of a pair are those
of each text, their absolute difference and product, their cosine, and the cosine of their character
trigrams. Words are tagged by the word, its prefix and suffixes, its shape ("Xx", "d-x") and its two
neighbours (Ratinov and Roth, CoNLL 2009).

The models are fitted on the training examples only, in one thread and without torch. On one core
this takes less than 10 seconds for a file of GLUE or the 203,000 words of CoNLL-2003.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

import numpy as np

from bertwright.arrays import Float64s, Int64s
from bertwright.labelled.examples import TaggingExample, TextExample
from bertwright.tasks.lexical import terms
from bertwright.tasks.predictions import NumberPrediction, TextPrediction
from bertwright.tasks.tagging.options import TaggingTask
from bertwright.tasks.texts.options import ClassificationTask, RegressionTask
from bertwright.text.scripts import without_blanks, word_pattern

_C = (10.0, 1.0, 100.0)
"""The values of C of logistic regression to select from. The first one, which is used without
selection, is the best of 0.3, 1, 10 and 100 on SST-2, TREC-6 and AG News.
"""
_ALPHA = (1.0, 0.3, 3.0)
"""The same for the penalty of ridge regression."""
_FOLDS, _FEW = 3, 2_000
"""The folds of the cross-validation that selects penalties, and the maximum number of training
examples with which it takes only seconds.
"""
_LITTLE_TEXT = 1_000_000
"""The number of characters of the training texts, times an eighth of the number of labels, below
which there are features of characters.
"""
_NO_WORDS = ("...", "...")
"""Texts added before fitting TF-IDF, which refuses texts without a single word."""
_FEATURES = 2**20
_UPDATES = 1_000_000
"""The least number of words seen in training, in at most 20 passes."""


Guess = tuple[Float64s, Int64s]
"""For a sentence of W words: the probability of each of C tags [W, C], and the tag of each word
[W].
"""


def text_baselines(
    task: ClassificationTask,
    train: Sequence[TextExample],
    dev: Sequence[TextExample],
    seed: int,
    simplest: bool,
) -> Mapping[str, Sequence[TextPrediction]]:
    """Return predictions for `dev` by the majority class (or majority labels) and, unless only the
    `simplest` is wanted, by TF-IDF.
    """
    found = {"majority": _majority(task, train, dev)}
    return found if simplest else found | {"tfidf": _labels(task, train, dev, seed)}


def number_baselines(
    task: RegressionTask,
    train: Sequence[TextExample],
    dev: Sequence[TextExample],
    seed: int,
    simplest: bool,
) -> Mapping[str, Sequence[NumberPrediction]]:
    """Return predictions for `dev` by the mean of the training numbers and, unless only the
    `simplest` is wanted, by TF-IDF.
    """
    mean = NumberPrediction(float(np.mean([cast(float, e.label) for e in train])))
    found = {"mean": [mean] * len(dev)}
    return found if simplest else found | {"tfidf_ridge": _numbers(train, dev)}


def tag_baselines(
    task: TaggingTask,
    train: Sequence[TaggingExample],
    dev: Sequence[TaggingExample],
    seed: int,
    simplest: bool,
) -> Mapping[str, Sequence[Guess]]:
    """Return tags for each sentence of `dev`: each word's most frequent tag and, unless only the
    `simplest` is wanted, those of a model of word shapes.
    """
    found = {"majority": _most_frequent(task, train, dev)}
    return found if simplest else found | {"word_shape": _by_shape(task, train, dev, seed)}


def _tfidf(texts: Sequence[str]) -> Any:
    """Return TF-IDF fitted on `texts`, of words and bigrams or of one and two characters.

    If there are more than 1,000 texts, features that occur in only one of them are ignored: they
    carry little information and are most of all features.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    with_punctuation = rf"{word_pattern()}|[^\w\s]"
    return TfidfVectorizer(
        **terms(texts, with_punctuation, longest=2),
        sublinear_tf=True,
        min_df=2 if len(texts) > 1000 else 1,
    ).fit([*texts, *_NO_WORDS])


def _prediction(task: ClassificationTask, scores: Float64s) -> TextPrediction:
    """Return the class with the largest score of scores [C]; with multi-label, all labels with a
    score of at least 0.5.
    """
    named = dict(zip(task.labels, scores.tolist(), strict=True))
    if task.options.multi_label:
        return TextPrediction(tuple(label for label, p in named.items() if p >= 0.5), named)
    return TextPrediction(task.labels[int(scores.argmax())], named)


def _majority(
    task: ClassificationTask, train: Sequence[Any], dev: Sequence[Any]
) -> list[TextPrediction]:
    """Predict for every example the most frequent class, or the labels that half of the examples
    have.
    """
    several = task.options.multi_label
    counts = Counter(label for e in train for label in (e.label if several else [e.label]))
    fractions = np.array([counts[label] / len(train) for label in task.labels])
    return [_prediction(task, fractions)] * len(dev)


def _most_frequent(
    task: TaggingTask, train: Sequence[Any], dev: Sequence[TaggingExample]
) -> list[Guess]:
    """Predict each word's most frequent tag."""
    numbers = {label: number for number, label in enumerate(task.labels)}
    counts: dict[str, Counter[int]] = {}
    for example in train:
        for word, tag in zip(example.words, example.tags, strict=True):
            counts.setdefault(word, Counter())[numbers[tag]] += 1
    usual = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    otherwise = numbers.get("O", sum(counts.values(), Counter()).most_common(1)[0][0])
    guesses = []
    for example in dev:
        best = np.array([usual.get(word, otherwise) for word in example.words])
        guesses.append((np.eye(len(task.labels))[best], best))
    return guesses


def _by_shape(
    task: TaggingTask, train: Sequence[Any], dev: Sequence[TaggingExample], seed: int
) -> list[Guess]:
    """Predict tags by logistic regression on each word, its shape and its neighbours."""
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.linear_model import SGDClassifier

    hasher = FeatureHasher(_FEATURES, input_type="string", alternate_sign=False)
    numbers = {label: number for number, label in enumerate(task.labels)}
    gold = np.array([numbers[tag] for e in train for tag in e.tags])
    known = np.unique(gold)
    ends = np.cumsum([len(e.words) for e in dev])
    probabilities = np.zeros((int(ends[-1]), len(task.labels)))
    if len(known) == 1:
        probabilities[:, known] = 1
    elif len(probabilities):
        passes = max(3, min(20, -(-_UPDATES // len(gold))))
        model = SGDClassifier(
            loss="log_loss", alpha=1e-6, max_iter=passes, tol=None, average=True, random_state=seed
        )
        model.fit(hasher.transform(_word_features(train)), gold)
        probabilities[:, known] = model.predict_proba(hasher.transform(_word_features(dev)))
    parts = np.split(probabilities, ends[:-1])
    return [(part, part.argmax(1)) for part in parts]


def shape(word: str) -> str:
    """Return the shape of a word: "Xx" for "Brussels", "X.X." for "U.S.", "d-x" for "3-year".

    A run of characters of the same kind becomes one letter.
    """
    kinds = (
        "X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in word
    )
    return "".join(kind for kind, _ in groupby(kinds))


def _word_features(examples: Sequence[TaggingExample]) -> Iterator[list[str]]:
    """Yield the names of the features of each word of all examples."""
    for example in examples:
        words = ["", *example.words, ""]
        shapes = list(map(shape, words))
        for at in range(1, len(words) - 1):
            word, low = words[at], words[at].lower()
            itself = [f"w{word}", f"l{low}", f"s{shapes[at]}"]
            ends = [f"p{low[:3]}", f"e{low[-2:]}", f"e{low[-3:]}"]
            near = [f"-{words[at - 1]}", f"+{words[at + 1]}", f"n{shapes[at - 1]} {shapes[at + 1]}"]
            yield itself + ends + near


def _labels(
    task: ClassificationTask, train: Sequence[Any], dev: Sequence[Any], seed: int
) -> list[TextPrediction]:
    """Predict classes or label sets for `dev` by TF-IDF and logistic regression fitted on
    `train`.
    """
    x, x_dev = _features(train, dev, _is_little(train, len(task.labels)))
    probabilities = np.zeros((len(dev), len(task.labels)))
    if task.options.multi_label:
        for number, label in enumerate(task.labels):
            gold = np.array([label in e.label for e in train])
            own = _probabilities(x, gold, x_dev, seed, selects=False)
            probabilities[:, number] = own[:, -1] * gold.any()
    else:
        numbers = {label: number for number, label in enumerate(task.labels)}
        gold = np.array([numbers[e.label] for e in train])
        probabilities[:, np.unique(gold)] = _probabilities(x, gold, x_dev, seed)
    return [_prediction(task, row) for row in probabilities]


def _numbers(train: Sequence[Any], dev: Sequence[Any]) -> list[NumberPrediction]:
    """Predict numbers for `dev` by ridge regression fitted on `train`, clipped to the range of
    `train`.
    """
    from sklearn.linear_model import Ridge

    x, x_dev = _features(train, dev, _is_little(train, 1))
    gold = np.array([e.label for e in train], dtype=np.float64)
    alpha = _select(_ALPHA, lambda value: Ridge(alpha=value), x, gold, 0)
    predicted = Ridge(alpha=alpha).fit(x, gold).predict(x_dev)
    return [NumberPrediction(v) for v in np.clip(predicted, gold.min(), gold.max()).tolist()]


def _probabilities(x: Any, gold: Any, x_dev: Any, seed: int, selects: bool = True) -> Float64s:
    """Return the probability of each class that occurs in `gold`, [E, classes]."""
    from sklearn.linear_model import LogisticRegression

    if len(known := np.unique(gold)) == 1:
        return np.ones((x_dev.shape[0], 1))
    solver = "liblinear" if len(known) == 2 else "lbfgs"

    def model(c: float) -> Any:
        return LogisticRegression(C=c, solver=solver, max_iter=200, tol=1e-3, random_state=seed)

    chosen = _select(_C, model, x, gold, seed) if selects else _C[0]
    return cast(Float64s, model(chosen).fit(x, gold).predict_proba(x_dev))


def _select(
    values: Sequence[float], model: Callable[[float], Any], x: Any, gold: Any, seed: int
) -> float:
    """Return the value whose models have the best mean score in cross-validation.

    Of equally good values, and for too few or too many examples, it is the first.
    """
    from sklearn.model_selection import KFold

    if not 2 * _FOLDS <= len(gold) <= _FEW:
        return values[0]
    folds = [*KFold(_FOLDS, shuffle=True, random_state=seed).split(x)]
    if any(len(np.unique(gold[fit])) < 2 for fit, _ in folds):
        return values[0]

    def score(value: float) -> float:
        scores = [model(value).fit(x[a], gold[a]).score(x[b], gold[b]) for a, b in folds]
        return float(np.mean(scores))

    return max(values, key=score)


def _is_little(train: Sequence[Any], labels: int) -> bool:
    """Return whether there is so little text that features of characters take only seconds."""
    characters = sum(len(e.text) + len(e.text2 or "") for e in train)
    return characters * max(1.0, labels / 8) < _LITTLE_TEXT


def _features(train: Sequence[Any], dev: Sequence[Any], characters: bool) -> tuple[Any, Any]:
    """Return the sparse features of `train` and `dev`, [E, F] each.

    If `characters`, those of single texts include three to five characters inside words.
    """
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [e.text for e in train]
    seconds = [e.text2 for e in train if e.text2 is not None]
    words = _tfidf(texts + seconds)
    if not seconds:
        parts = [words]
        if characters and not without_blanks(texts[:1000]):
            least = 2 if len(texts) > 1000 else 1
            inside = TfidfVectorizer(
                analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True, min_df=least
            )
            parts.append(inside.fit([*texts, *_NO_WORDS]))
        sides = (texts, [e.text for e in dev])
        x, x_dev = (hstack([part.transform(side) for part in parts]).tocsr() for side in sides)
        return x, x_dev
    size = (1, 3) if without_blanks(texts[:1000]) else (3, 3)
    runs = TfidfVectorizer(analyzer="char", ngram_range=size, sublinear_tf=True)
    runs.fit([*texts, *seconds, *_NO_WORDS])
    features = []
    for side in (train, dev):
        first, second = [e.text for e in side], [e.text2 or "" for e in side]
        x, y = words.transform(first), words.transform(second)
        shared = runs.transform(first).multiply(runs.transform(second))
        cosines = [csr_matrix(each.sum(axis=1)) for each in (x.multiply(y), shared)]
        features.append(hstack([x, y, abs(x - y), x.multiply(y), *cosines]).tocsr())
    return features[0], features[1]
