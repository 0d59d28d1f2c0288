"""What a word, its shape and its neighbours say of its tag.

`majority`: the most frequent tag of the word in the training set; for words not in it, "O", or the
most frequent tag where there is no "O". `word_shape`: logistic regression, learned by stochastic
gradient descent, on the word, its shape ("Xxxx", "dddd"), its first and last letters, and the words
and shapes of two neighbours on each side: the features of feature-based taggers without their word
lists (Ratinov and Roth, CoNLL 2009). Words are judged one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import cast

import numpy as np

from bertwright.arrays import Float64s
from bertwright.config.task import TaskConfig
from bertwright.labelled.examples import TaggingExample
from bertwright.tasks.predictions import TaggingPrediction
from bertwright.tasks.tagging_decoding import decode_tagging

_FEATURES = 2**20
_UPDATES = 1_000_000
"""Words seen in training, at least; 20 passes at most."""


def predict_most_frequent(
    task: TaskConfig, train: Sequence[TaggingExample], dev: Sequence[TaggingExample]
) -> list[TaggingPrediction]:
    """Each word's most frequent tag; its score is that tag's share."""
    numbers = {label: number for number, label in enumerate(task.labels)}
    counts: dict[str, Counter[int]] = {}
    every: Counter[int] = Counter()
    for example in train:
        for word, tag in zip(example.words, cast("tuple[str, ...]", example.tags), strict=True):
            counts.setdefault(word, Counter())[numbers[tag]] += 1
            every[numbers[tag]] += 1
    otherwise = Counter({numbers["O"]: 1}) if "O" in numbers else every
    found = []
    for example in dev:
        shares = np.zeros((len(example.words), len(task.labels)))
        for row, word in enumerate(example.words):
            for number, times in counts.get(word, otherwise).items():
                shares[row, number] = times
        shares /= shares.sum(axis=1, keepdims=True)
        found.append(decode_tagging(task, example, shares, shares.argmax(axis=1)))
    return found


def predict_by_shape(
    task: TaskConfig, train: Sequence[TaggingExample], dev: Sequence[TaggingExample], seed: int
) -> list[TaggingPrediction]:
    """Tags by logistic regression on each word, its shape and its neighbours."""
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.linear_model import SGDClassifier

    hasher = FeatureHasher(_FEATURES, input_type="string", alternate_sign=False)
    numbers = {label: number for number, label in enumerate(task.labels)}
    gold = np.array([numbers[tag] for e in train for tag in cast("tuple[str, ...]", e.tags)])
    known = np.unique(gold)
    words = sum(len(e.words) for e in dev)
    chances = np.zeros((words, len(task.labels)))
    if len(known) == 1:
        chances[:, known] = 1
    elif words:
        passes = max(3, min(20, -(-_UPDATES // len(gold))))
        model = SGDClassifier(
            loss="log_loss", alpha=1e-6, max_iter=passes, tol=None, average=True, random_state=seed
        )
        model.fit(hasher.transform(_all_features(train)), gold)
        chances[:, known] = model.predict_proba(hasher.transform(_all_features(dev)))
    found, start = [], 0
    for example in dev:
        here: Float64s = chances[start : start + len(example.words)]
        start += len(example.words)
        found.append(decode_tagging(task, example, here, here.argmax(axis=1)))
    return found


def shape(word: str) -> str:
    """ "Xx" of "Brussels", "X.X." of "U.S.", "d-x" of "3-year": runs of a kind as one letter."""
    return "".join(letter for letter, _ in groupby(map(_kind, word)))


def _kind(character: str) -> str:
    if character.isupper():
        return "X"
    if character.isalpha():
        return "x"
    return "d" if character.isdigit() else character


def _all_features(examples: Sequence[TaggingExample]) -> Iterator[list[str]]:
    """Names of the features that each word of all examples has."""
    known: dict[str, list[str]] = {}  # a word's own features are made once
    for example in examples:
        shapes = ["", "", *map(shape, example.words), "", ""]
        lower = ["<", "<", *(w.lower() for w in example.words), ">", ">"]
        for place, word in enumerate(example.words):
            if word not in known:
                known[word] = _own_features(word)
            near = [f"{d}{lower[place + 2 + d]}" for d in (-2, -1, 1, 2)]
            near += [f"s{d}{shapes[place + 2 + d]}" for d in (-1, 1)]
            near.append(f"l{shapes[place + 1]} {shapes[place + 2]} {shapes[place + 3]}")
            yield known[word] + near


def _own_features(word: str) -> list[str]:
    lower = word.lower()
    ends = [f"p{lower[:n]}" for n in (1, 2, 3, 4)] + [f"e{lower[-n:]}" for n in (1, 2, 3, 4)]
    return ["b", f"w{word}", f"0{lower}", f"s{shape(word)}", f"n{min(len(word), 12)}", *ends]
