from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap as scipy_bootstrap

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


def test_it_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    covered = 0
    for seed in range(200):
        right = (generator.random(150) < 0.7).astype(np.float64)
        statistic = of_sums(right[:, None], lambda sums: {"accuracy": sums[:, 0] / 150})
        low, high = bootstrap(statistic, 150, resamples=200, seed=seed, level=0.9)["accuracy"]
        covered += low <= 0.7 <= high
    assert 166 <= covered <= 194  # 180 expected; 5 % of the time outside 172 to 188


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"examples": 0}, "1000 resamples of 0 examples; expected 1 or more"),
        ({"examples": 3, "resamples": 0}, "0 resamples of 3 examples"),
        ({"examples": 3, "level": 1.0}, "level is 1.0; expected more than 0 and less than 1"),
    ],
)
def test_what_cannot_be_resampled(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bootstrap(MEAN, **settings)  # type: ignore[arg-type]


def test_undefined_ratios_are_0() -> None:
    assert ratio(np.array([1.0, 0.0]), np.array([4.0, 0.0])).tolist() == [0.25, 0.0]
