"""Fit a linear layer on frozen vectors: logistic regression for classes and label sets, and ridge
regression for numbers, both by scikit-learn.

The vectors of a frozen encoder do not change, so the best linear layer over them is the minimum of
a convex function, which is found without steps and learning rates. The features are standardized
first, because the dimensions of word vectors and of recurrent states differ in scale, and only then
does a penalty on the weights treat all dimensions alike. Mean and standard deviation are folded
into the weights that are returned,

    w . (x - mean) / sd + b  =  (w / sd) . x + (b - (w / sd) . mean)

so the layer reads the original vectors, and a saved model needs no other statistics.

The strength of the penalty (C of scikit-learn) is chosen by the loss of 5-fold cross-validation
over the training rows; rows of one group, such as the words of a sentence, are in the same fold.
The loss is compared instead of the accuracy, because with few rows accuracies are nearly equal.
Scores are calibrated by temperature scaling (Guo et al. 2017, "On Calibration of Modern Neural
Networks"), and the penalty is chosen by the loss after it: overconfidence alone should not rule a
layer out. The scores of the layer are divided by the temperature if it is above 1.

Letters: R rows, F width of a vector, C classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from bertwright.arrays import Bools, Float32s, Float64s, Int64s
from bertwright.data.randomness import make_key, permutation

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""The values of C that are compared, in rising order; C is the inverse of the penalty."""
PENALTIES = tuple(10.0**power for power in range(-1, 6))
"""The values of alpha that ridge regression compares."""
FOLDS = 5
COMPARED = 10_000
"""The maximum number of rows on which strengths are compared; the layer itself is fitted on all
rows."""
LEAST = 1e-6
"""The lower limit of probabilities in a loss."""
TEMPERATURES = np.geomspace(1 / 32, 32, 81)
"""The temperatures that are compared."""
TOLERANCE = 1e-3
"""How far fits converge while strengths are compared; the layer itself is fitted to 1e-4."""
LEAST_DEVIATION = 1e-4
"""The least standard deviation of a feature, as a fraction of the median over the features."""
NEVER = -1e4
"""The bias of a class that no row has."""


@dataclass(frozen=True)
class Choice:
    """The strength with the lowest cross-validated loss."""

    strength: float
    """C of logistic regression, or alpha of ridge regression."""
    temperature: float = 1.0
    """What the scores are divided by: the temperature of the lowest loss, if it is above 1; else
    1."""
    loss: float | None = None
    """The cross-validated loss: minus the mean log-probability of the labels at the best
    temperature; for numbers the mean squared error. None where there are too few groups."""


class Layer(NamedTuple):
    """A linear layer over the standardized vectors."""

    weight: Float64s
    """`[C, F]`"""
    bias: Float64s
    """`[C]`"""


@dataclass(frozen=True)
class LinearFit:
    """A linear layer over the original vectors, which are not standardized."""

    weight: Float32s
    """`[C, F]`; `[1, F]` for numbers."""
    bias: Float32s
    """`[C]`"""
    choice: Choice


def fit_classes(
    x: Float32s,
    labels: Int64s,
    classes: int,
    groups: Int64s,
    seed: int,
    class_weights: Sequence[float] | None = None,
) -> LinearFit:
    """Fit multinomial logistic regression.

    Args:
        x: `[R, F]`; it is standardized in place.
        labels: `[R]`, the class of each row.
        classes: C.
        groups: `[R]`, the group of each row.
        seed: the seed of the folds.
        class_weights: the weight of each class in the loss; None: all are 1.
    """
    mean, scale = _standardize(x)

    def fit(rows: Int64s, strength: float, tolerance: float) -> Layer:
        return _logistic(x[rows], labels[rows], classes, strength, tolerance, class_weights)

    def log_probabilities(scores: Float64s, rows: Int64s) -> Float64s:
        shifted = scores - scores.max(1, keepdims=True)
        of_labels = shifted[np.arange(len(rows)), labels[rows]]
        return cast(Float64s, of_labels - np.log(np.exp(shifted).sum(1)))

    choice = choose(x, fit, log_probabilities, groups, seed)
    layer = fit(np.arange(len(x)), choice.strength, 1e-4)
    return _folded(layer, mean, scale, choice)


def fit_label_sets(
    x: Float32s,
    held: Bools,
    groups: Int64s,
    seed: int,
    class_weights: Sequence[float] | None = None,
) -> LinearFit:
    """Fit a logistic regression for each label, all with the same strength.

    Args:
        x: `[R, F]`; it is standardized in place.
        held: `[R, C]`, whether each row has each label.
        groups: `[R]`, the group of each row.
        seed: the seed of the folds.
        class_weights: the weight of each label in the loss; None: all are 1.
    """
    mean, scale = _standardize(x)
    labels = held.astype(np.int64)
    factors = np.ones(held.shape[1]) if class_weights is None else np.array(class_weights)

    def fit(rows: Int64s, strength: float, tolerance: float) -> Layer:
        layers = [
            _logistic(x[rows], own[rows], 2, strength * factor, tolerance)
            for own, factor in zip(labels.T, factors, strict=True)
        ]
        weights, biases = (np.stack(parts) for parts in zip(*layers, strict=True))
        return Layer(weights[:, 1] - weights[:, 0], biases[:, 1] - biases[:, 0])

    def log_probabilities(scores: Float64s, rows: Int64s) -> Float64s:
        return cast(Float64s, -np.logaddexp(0.0, np.where(held[rows], -scores, scores)))

    choice = choose(x, fit, log_probabilities, groups, seed)
    layer = fit(np.arange(len(x)), choice.strength, 1e-4)
    return _folded(layer, mean, scale, choice)


def fit_numbers(x: Float32s, numbers: Float64s) -> LinearFit:
    """Fit ridge regression, whose strength is chosen by leave-one-out cross-validation.

    Args:
        x: `[R, F]`; it is standardized in place.
        numbers: `[R]`, the number to predict for each row.
    """
    from sklearn.linear_model import Ridge, RidgeCV

    mean, scale = _standardize(x)
    some = permutation(make_key("fit", 0), len(x))[:COMPARED]
    chosen = RidgeCV(alphas=PENALTIES).fit(x[some].astype(np.float64), numbers[some])
    alpha = float(chosen.alpha_)
    model = Ridge(alpha=alpha).fit(x, numbers)
    layer = Layer(np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_))
    return _folded(layer, mean, scale, Choice(alpha, loss=-float(chosen.best_score_)))


def _standardize(x: Float32s) -> tuple[Float64s, Float64s]:
    """Standardize the columns of `x` in place. Return their means and standard deviations.

    A standard deviation below `LEAST_DEVIATION` of the median is returned as that: a column that
    hardly varies would otherwise have a weight of a million, which no training could change.
    """
    mean, scale = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
    scale = np.maximum(scale, LEAST_DEVIATION * np.median(scale))
    scale[scale == 0] = 1.0
    x -= mean.astype(np.float32)
    x /= scale.astype(np.float32)
    return mean, scale


def _folded(layer: Layer, mean: Float64s, scale: Float64s, choice: Choice) -> LinearFit:
    """Convert a layer over standardized vectors into a layer over the original vectors, whose
    scores are divided by the temperature."""
    weight = layer.weight / scale / choice.temperature
    bias = layer.bias / choice.temperature - weight @ mean
    return LinearFit(weight.astype(np.float32), bias.astype(np.float32), choice)


def _logistic(
    x: Float32s,
    labels: Int64s,
    classes: int,
    strength: float,
    tolerance: float,
    class_weights: Sequence[float] | None = None,
) -> Layer:
    """Return the layer of logistic regression on some rows. A class that none of them has is never
    predicted."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    present = np.unique(labels)
    layer = Layer(np.zeros((classes, x.shape[1])), np.full(classes, NEVER))
    if len(present) == 1:
        layer.bias[present] = 0
        return layer
    weights = None if class_weights is None else {n: class_weights[n] for n in present.tolist()}
    model = LogisticRegression(C=strength, class_weight=weights, max_iter=500, tol=tolerance)
    with warnings.catch_warnings():  # a layer that has not fully converged is good enough
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, labels)
    if len(present) == 2:  # one score, half of it for either class
        layer.weight[present] = np.concatenate([-model.coef_, model.coef_]) / 2
        layer.bias[present] = np.array([-1, 1]) * model.intercept_ / 2
    else:
        layer.weight[present], layer.bias[present] = model.coef_, model.intercept_
    return layer


def choose(
    x: Float32s,
    fit: Callable[[Int64s, float, float], Layer],
    log_probabilities: Callable[[Float64s, Int64s], Float64s],
    groups: Int64s,
    seed: int,
) -> Choice:
    """Return the strength with the lowest cross-validated loss.

    Strengths are tried in rising order, until the loss is more than 5 % above the lowest.

    Args:
        x: `[R, F]`.
        fit: fits a layer on rows of `x` with a strength, to a tolerance.
        log_probabilities: the logarithms of the probabilities of the labels of rows, from their
            scores.
        groups: `[R]`, the group of each row.
        seed: the seed of the folds.
    """
    folds = list(folds_of(groups, seed))
    if len(folds) < 2:
        return Choice(1.0)
    rows = np.concatenate([held for _, held in folds])
    best = Choice(STRENGTHS[0], loss=np.inf)
    for strength in STRENGTHS:
        layers = [(fit(train, strength, TOLERANCE), held) for train, held in folds]
        scores = np.concatenate([x[held] @ layer.weight.T + layer.bias for layer, held in layers])
        losses = [
            -np.maximum(log_probabilities(scores / each, rows), np.log(LEAST)).mean()
            for each in TEMPERATURES
        ]
        least = float(min(losses))
        if least < cast(float, best.loss):
            temperature = float(TEMPERATURES[int(np.argmin(losses))])
            best = Choice(strength, max(1.0, temperature), least)
        elif least > 1.05 * cast(float, best.loss):
            break
    return best


def folds_of(groups: Int64s, seed: int) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the training rows and the held-out rows of each fold.

    Groups are assigned to folds in random order, until their rows exceed `COMPARED`.
    """
    names, numbers, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = permutation(make_key("folds", seed), len(names))
    taken = order[np.cumsum(counts[order]) <= max(COMPARED, counts[order[0]])]
    fold_of = np.full(len(names), -1)
    fold_of[taken] = np.arange(len(taken)) % FOLDS
    folds = fold_of[numbers]
    for fold in range(min(FOLDS, len(taken))):
        train, held = np.flatnonzero((folds != fold) & (folds >= 0)), np.flatnonzero(folds == fold)
        if len(train) and len(held):
            yield cast(Int64s, train), cast(Int64s, held)
