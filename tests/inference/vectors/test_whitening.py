"""Whitening: what cannot be fitted, and files that hold none."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bertwright.errors import ConfigError, DataError
from bertwright.inference.files.fit_whitening import Moments
from bertwright.inference.vectors.whitening import Whitening, load_whitening


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"mean": np.zeros(3), "kernel": np.full((3, 2), np.nan)}, "not finite"),
        ({"mean": np.zeros(3), "kernel": np.array([["a"]] * 3)}, "not real"),
        ({"mean": np.zeros(3), "kernel": np.zeros((3, 0))}, "shapes"),
        ({"mean": np.zeros(3), "kernel": np.zeros((2, 2))}, "shapes"),
        ({"mean": np.zeros(3)}, "whitening"),
        ({"mean": np.full(3, np.inf), "kernel": np.zeros((3, 2))}, "not finite"),
        ({"mean": np.zeros((3, 1)), "kernel": np.zeros((3, 2))}, "shapes"),
        ({"mean": np.zeros(3), "kernel": np.zeros(3)}, "shapes"),
        ({"mean": np.zeros(3, int), "kernel": np.zeros((3, 2))}, "not real"),
    ],
)
def test_whitening_that_is_none(tmp_path: Path, arrays: dict, message: str) -> None:
    np.savez(tmp_path / "w.npz", **arrays)
    with pytest.raises(DataError, match=message):
        load_whitening(tmp_path / "w.npz")


class Harm:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    objects = np.array([Harm(tmp_path / "harm")] * 2, object)
    np.savez(tmp_path / "w.npz", mean=objects, kernel=objects)
    with pytest.raises(DataError, match="whitening"):
        load_whitening(tmp_path / "w.npz")
    assert not (tmp_path / "harm").exists()


def test_a_file_is_what_was_saved(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    mean, kernel = (generator.standard_normal(size).astype(np.float32) for size in (6, (6, 4)))
    path = tmp_path / "new" / "w.npz"
    Whitening(mean, kernel).save(path)
    found = load_whitening(path)
    np.testing.assert_array_equal(found.mean, mean)
    np.testing.assert_array_equal(found.kernel, kernel)
    assert [*path.parent.iterdir()] == [path]
    whole = path.read_bytes()
    for fraction in (0.3, 0.9):
        path.write_bytes(whole[: int(len(whole) * fraction)])
        with pytest.raises(DataError, match="whitening"):
            load_whitening(path)


def test_moments_of_parts_are_those_of_the_whole() -> None:
    """Far from zero, where float32 would round the variances away."""
    generator = np.random.default_rng(0)
    spread = np.diag([5, 3, 2, 1, 0.5]) @ np.linalg.qr(generator.standard_normal((5, 5)))[0]
    x = (generator.standard_normal((400, 5)) @ spread + 500).astype(np.float32)
    moments = Moments(5)
    for part in np.split(x, [10, 150, 390]):
        moments.add(part)
    whitening = moments.fit(2)
    found = whitening(x)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-2)
    np.testing.assert_allclose(np.cov(found.T, bias=True), np.eye(2), atol=1e-3)
    largest = np.linalg.eigvalsh(np.cov(x.astype(np.float64).T, bias=True))[::-1][:2]
    np.testing.assert_allclose(1 / np.square(whitening.kernel).sum(0), largest, rtol=1e-3)


@pytest.mark.parametrize("dimensions", [-3, 0, 5])
def test_whitening_to_dimensions_that_there_are_not(dimensions: int) -> None:
    with pytest.raises(ConfigError, match=f"dimensions.*{dimensions}.*4"):
        Moments(4).fit(dimensions)


@pytest.mark.parametrize(("value", "message"), [(1 / 3, "all the same"), (np.nan, "not finite")])
def test_whitening_of_what_does_not_vary(value: float, message: str) -> None:
    moments = Moments(4)
    moments.add(np.full((3, 4), value, np.float32))
    with pytest.raises(DataError, match=message):
        moments.fit()


def test_directions_that_hardly_vary_are_left_out() -> None:
    """Stretched, rounding errors would weigh as much as all the rest."""
    moments = Moments(3)
    vectors = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    vectors[:, 2] = vectors[:, 1] + 1e-4 * vectors[:, 2]
    moments.add(vectors)
    assert moments.fit().width == 2


def test_whitening_of_too_few() -> None:
    moments = Moments(4)
    moments.add(np.eye(4, dtype=np.float32)[:3])
    with pytest.raises(DataError, match=r"3 texts.*2 directions.*3"):
        moments.fit(3)
