"""Intervals as of scipy, metrics as of scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import bootstrap as scipy_bootstrap
from sklearn import metrics as sk

from bertwright.tasks import metrics as cm
from bertwright.tasks.metrics import bootstrap, of_sums, ratio, value

X = np.random.default_rng(5).normal(3.0, 2.0, 400)
MEAN = of_sums(np.stack([X, np.ones(400)], axis=1), lambda s: {"mean": s[:, 0] / s[:, 1]})


def test_the_value_is_that_of_one_of_each_example() -> None:
    assert value(MEAN, 400)["mean"] == pytest.approx(X.mean())


def test_the_interval_is_scipys_percentile_interval() -> None:
    low, high = bootstrap(MEAN, 400, resamples=4000)["mean"]
    other = scipy_bootstrap(
        (X,), np.mean, n_resamples=4000, method="percentile", random_state=1
    ).confidence_interval
    assert (low, high) == pytest.approx((other.low, other.high), abs=0.02)


def test_the_same_seed_gives_the_same_interval() -> None:
    assert bootstrap(MEAN, 400, seed=3) == bootstrap(MEAN, 400, seed=3)
    assert bootstrap(MEAN, 400, seed=3) != bootstrap(MEAN, 400, seed=4)


def test_every_resample_has_as_many_examples_however_they_are_cut_up() -> None:
    seen: list[np.ndarray] = []

    def statistic(counts: np.ndarray) -> dict[str, np.ndarray]:
        seen.append(counts)
        number = sum(map(len, seen)) - np.arange(len(counts), 0, -1.0)
        return {"drawn": counts.sum(1), "number": number}

    found = bootstrap(statistic, 30_000, resamples=100)
    assert found["drawn"] == (30_000, 30_000)
    assert found["number"] == pytest.approx((0.025 * 99, 0.975 * 99))  # of all 100
    assert len(seen) > 1
    assert sum(map(len, seen)) == 100


def test_undefined_ratios_are_0() -> None:
    assert ratio(np.array([1.0, 0.0]), np.array([4.0, 0.0])).tolist() == [0.25, 0.0]


pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)
sets = st.lists(
    st.tuples(*[st.tuples(*[st.booleans()] * 3)] * 2),  # type: ignore[arg-type]
    min_size=1,
    max_size=20,
)
few = st.integers(-3, 3).map(float)  # many ties
numbers = st.lists(st.tuples(few, few), min_size=2, max_size=40)


@given(pairs)
def test_classes_as_in_scikit_learn(judged: list[tuple[int, int]]) -> None:
    gold, said = np.array(judged).T
    found = value(cm.class_statistic(cm.class_counts(gold, said, 4), positive=2), len(gold))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # one label only
        matthews = sk.matthews_corrcoef(gold, said)
    assert found == pytest.approx(
        {
            "accuracy": sk.accuracy_score(gold, said),
            "f1": sk.f1_score(gold == 2, said == 2, zero_division=0),
            "macro_f1": sk.f1_score(gold, said, average="macro", zero_division=0),
            "micro_f1": sk.f1_score(gold, said, average="micro", zero_division=0),
            "matthews": matthews,
        }
    )


@given(pairs)
def test_per_class_and_confusion_as_in_scikit_learn(judged: list[tuple[int, int]]) -> None:
    gold, said = np.array(judged).T
    labels = ("a", "b", "c", "d")
    rows = cm.per_class(cm.class_counts(gold, said, 4).sum(axis=0).reshape(3, -1), labels)
    expected = sk.precision_recall_fscore_support(gold, said, labels=range(4), zero_division=0)
    for key, column in zip(("precision", "recall", "f1", "support"), expected, strict=True):
        assert [row[key] for row in rows] == pytest.approx(column.tolist())
    assert [row["label"] for row in rows] == list(labels)
    table = cm.confusion(gold, said, labels)
    assert table["counts"] == sk.confusion_matrix(gold, said, labels=range(4)).tolist()


@given(pairs)
def test_a_resample_counts_an_example_as_often_as_it_was_drawn(
    judged: list[tuple[int, int]],
) -> None:
    gold, said = np.array(judged).T
    counts = np.random.default_rng(0).multinomial(len(gold), [1 / len(gold)] * len(gold), size=3)
    found = cm.class_statistic(cm.class_counts(gold, said, 4))(counts.astype(float))
    for row, times in enumerate(counts):
        drawn = cm.class_counts(np.repeat(gold, times), np.repeat(said, times), 4)
        alone = value(cm.class_statistic(drawn), len(gold))
        assert {name: v[row] for name, v in found.items()} == pytest.approx(alone)


@given(sets)
def test_label_sets_as_in_scikit_learn(judged: list[tuple[tuple[bool, ...], ...]]) -> None:
    gold, said = np.array(judged).transpose(1, 0, 2)
    found = value(cm.multi_label_statistic(gold, said), len(gold))
    seen = np.flatnonzero((gold | said).any(0))  # scikit-learn's macro knows no unseen label
    macro = sk.f1_score(gold, said, labels=seen, average="macro", zero_division=0)
    assert found["macro_f1"] == pytest.approx(macro if len(seen) else 0)
    micro = sk.f1_score(gold, said, average="micro", zero_division=0)
    assert found["micro_f1"] == pytest.approx(micro)
    assert found["exact_match"] == pytest.approx((gold == said).all(1).mean())


@given(numbers)
def test_numbers_as_in_scipy(judged: list[tuple[float, float]]) -> None:
    gold, said = np.array(judged).T
    found = value(cm.number_statistic(gold, said), len(gold))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        pearson = np.nan_to_num(stats.pearsonr(gold, said).statistic)
        spearman = np.nan_to_num(stats.spearmanr(gold, said).statistic)
    expected = {
        "pearson": pearson,
        "spearman": spearman,
        "pearson_spearman": (pearson + spearman) / 2,
        "mean_absolute_error": sk.mean_absolute_error(gold, said),
        "mean_squared_error": sk.mean_squared_error(gold, said),
    }
    assert found == pytest.approx(expected, abs=1e-9)


@given(numbers, st.integers(0, 9))
def test_correlations_of_a_resample(judged: list[tuple[float, float]], seed: int) -> None:
    gold, said = np.array(judged).T
    size = len(gold)
    times = np.random.default_rng(seed).multinomial(size, [1 / size] * size)
    found = cm.number_statistic(gold, said)(times[None].astype(float))
    alone = value(cm.number_statistic(np.repeat(gold, times), np.repeat(said, times)), size)
    assert {name: v[0] for name, v in found.items()} == pytest.approx(alone, abs=1e-9)


def test_large_numbers_close_together_still_correlate() -> None:
    x = np.arange(50.0)
    noise = np.random.default_rng(0).normal(size=50)
    found = value(cm.number_statistic(1e9 + x, x + noise), 50)
    assert found["pearson"] == pytest.approx(stats.pearsonr(x, x + noise).statistic)


def test_one_example_drawn_alone_correlates_with_nothing() -> None:
    """It is constant, and what rounding leaves of it must not correlate."""
    gold, said = np.random.default_rng(0).normal(size=(2, 60))
    found = cm.number_statistic(gold, said)(60 * np.eye(60))
    assert not found["pearson"].any()
    assert not found["spearman"].any()


def test_calibration_by_hand() -> None:
    confidence = np.array([0.1, 0.11, 0.19, 0.95, 1.0, 0.0, 0.975, 0.975])
    right = np.array([True, False, True, True, False, False, True, False])
    found = cm.calibration(confidence, right)
    assert [b["count"] for b in found["bins"]] == [2, 2, 4]
    assert found["bins"][0] == pytest.approx({"confidence": 0.05, "accuracy": 0.5, "count": 2})
    assert found["bins"][1] == pytest.approx({"confidence": 0.15, "accuracy": 0.5, "count": 2})
    assert found["bins"][2] == pytest.approx({"confidence": 0.975, "accuracy": 0.5, "count": 4})
    assert found["error"] == pytest.approx((2 * 0.45 + 2 * 0.35 + 4 * 0.475) / 8)
