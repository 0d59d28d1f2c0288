"""Linear layers fitted on frozen vectors: equal to scikit-learn's on standardized ones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bertwright.arrays import Float32s, Int64s
from bertwright.transfer import linear
from bertwright.transfer.linear import (
    PENALTIES,
    Layer,
    LinearFit,
    fit_classes,
    fit_label_sets,
    fit_numbers,
)


def vectors(rows: int = 150, width: int = 7) -> Float32s:
    """Columns of very different scales, one of which never varies."""
    chance = np.random.default_rng(1)
    x = chance.normal(size=(rows, width)) * 10.0 ** np.arange(-3, width - 3) + np.arange(width)
    x[:, 2] = 4.0
    return x.astype(np.float32)


def classes_of(x: Float32s, classes: int) -> Int64s:
    chance = np.random.default_rng(2)
    z = (x - x.mean(0)) / np.maximum(x.std(0), 1e-9)
    scores = z @ chance.normal(size=(x.shape[1], classes)) + chance.normal(size=(len(x), classes))
    return scores.argmax(1)


def softmax(scores: Float32s) -> Float32s:
    found = np.exp(scores - scores.max(1, keepdims=True))
    return found / found.sum(1, keepdims=True)


def scores_of(fit: LinearFit, x: Float32s) -> Float32s:
    """The scores before they were divided by the temperature."""
    return fit.choice.temperature * (x @ fit.weight.T + fit.bias)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_those_of_a_pipeline(classes: int) -> None:
    x, groups = vectors(), np.arange(150)
    labels = classes_of(x, classes)
    fit = fit_classes(x.copy(), labels, classes, groups, seed=1)
    assert fit.choice.strength in linear.STRENGTHS
    model = make_pipeline(
        StandardScaler(), LogisticRegression(C=fit.choice.strength, max_iter=1000)
    )
    expected = model.fit(x.astype(np.float64), labels).predict_proba(x)
    np.testing.assert_allclose(softmax(scores_of(fit, x)), expected, atol=2e-3)
    assert fit.choice.loss is not None
    assert 0 < fit.choice.loss < np.log(classes)


def test_weights_of_classes_are_those_of_the_library() -> None:
    x, weights = vectors(), [0.2, 3.0]
    labels = classes_of(x, 2)
    fit = fit_classes(x.copy(), labels, 2, np.arange(150), 1, weights)
    named = dict(enumerate(weights))
    model = LogisticRegression(C=fit.choice.strength, max_iter=1000, class_weight=named)
    expected = make_pipeline(StandardScaler(), model).fit(x, labels).predict_proba(x)
    np.testing.assert_allclose(softmax(scores_of(fit, x)), expected, atol=2e-3)


def test_a_class_without_rows_is_never_predicted() -> None:
    x = vectors()
    labels = 2 * classes_of(x, 2)
    fit = fit_classes(x.copy(), labels, 4, np.arange(150), 1)
    scores = x @ fit.weight.T + fit.bias
    assert set(scores.argmax(1)) == {0, 2}
    only = fit_classes(x.copy(), np.full(150, 3), 4, np.arange(150), 1)
    assert set((x @ only.weight.T + only.bias).argmax(1)) == {3}


def test_each_label_of_a_set_has_a_regression_of_its_own() -> None:
    x = vectors()
    held = np.stack([classes_of(x, 3) == 0, classes_of(x, 2) == 1, np.ones(150) > 0], 1)
    held = np.concatenate([held, np.zeros((150, 1), np.bool_)], 1)
    fit = fit_label_sets(x.copy(), held, np.arange(150), 1)
    scores = scores_of(fit, x)
    for label in (0, 1):
        model = make_pipeline(
            StandardScaler(), LogisticRegression(C=fit.choice.strength, max_iter=1000)
        )
        expected = model.fit(x, held[:, label]).decision_function(x)
        np.testing.assert_allclose(scores[:, label], expected, atol=0.02)
    assert (scores[:, 2] > 100).all()
    assert (scores[:, 3] < -100).all()


def test_numbers_are_those_of_ridge_regression() -> None:
    x = vectors()
    numbers = x[:, 4] * 0.5 + classes_of(x, 3)
    fit = fit_numbers(x.copy(), numbers.astype(np.float64))
    model = make_pipeline(StandardScaler(), RidgeCV(alphas=PENALTIES)).fit(x, numbers)
    assert fit.choice.strength == model[-1].alpha_
    np.testing.assert_allclose(x @ fit.weight[0] + fit.bias[0], model.predict(x), rtol=1e-2)


def test_rows_of_a_group_are_in_one_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = np.repeat(np.arange(40), 5)
    folds = list(linear.folds_of(groups, 1))
    assert len(folds) == 5
    assert sorted(row for _, held in folds for row in held) == list(range(200))
    for train, held in folds:
        assert not set(groups[train]) & set(groups[held])
    monkeypatch.setattr(linear, "COMPARED", 60)
    assert sum(len(held) for _, held in linear.folds_of(groups, 1)) == 60
    assert list(linear.folds_of(np.zeros(9, np.int64), 1)) == []


def test_too_few_rows_to_compare_are_fitted_all_the_same() -> None:
    x = vectors(2)
    fit = fit_classes(x.copy(), np.array([0, 1]), 2, np.zeros(2, np.int64), 1)
    assert fit.choice.loss is None
    np.testing.assert_array_equal((x @ fit.weight.T + fit.bias).argmax(1), [0, 1])


@pytest.mark.parametrize(
    ("losses", "chosen", "tried"),
    [
        ([1.3927, 1.3941, 1.3874, 1.3549, 1.2761, 1.4], 1.0, 6),  # of a hardly trained ELMo
        ([1.0, 0.8, 0.81, 0.9, 0.1, 0.1], 1e-3, 4),
    ],
)
def test_strengths_rise_until_the_loss_clearly_does(
    losses: list[float], chosen: float, tried: int
) -> None:
    seen: list[float] = []

    def fit(rows: Int64s, strength: float, tolerance: float) -> Layer:
        if strength not in seen:
            seen.append(strength)
        bias = losses[linear.STRENGTHS.index(strength)]
        return Layer(np.zeros((1, 1)), np.array([bias]))

    x = np.zeros((20, 1), np.float32)
    found = linear.choose(x, fit, lambda scores, rows: -scores[:, 0], np.arange(20), 1)
    assert found.strength == chosen
    assert found.loss == pytest.approx(min(losses[:tried]) / linear.TEMPERATURES[-1])
    assert len(seen) == tried


def test_an_overconfident_layer_is_softened() -> None:
    chance = np.random.default_rng(3)
    x = chance.normal(size=(300, 60)) + 6 * chance.normal(size=(300, 1))
    direction = chance.normal(size=60)
    noise = chance.normal(size=300)
    labels = (x @ (direction - direction.mean()) + 8 * noise > 0).astype(np.int64)
    fit = fit_classes(x.astype(np.float32), labels, 2, np.arange(300), 1)
    assert fit.choice.temperature > 1
    assert fit.choice.loss is not None
    assert fit.choice.loss < np.log(2)
