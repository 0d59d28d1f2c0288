"""Whitening: what cannot be fitted, and files that hold none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bertwright.errors import ConfigError, DataError
from bertwright.inference.whitening import Moments, Whitening, load_whitening


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"mean": np.zeros(3), "kernel": np.full((3, 2), np.nan)}, "not finite"),
        ({"mean": np.zeros(3), "kernel": np.array([["a"]] * 3)}, "other than real numbers"),
        ({"mean": np.zeros(3), "kernel": np.zeros((3, 0))}, "shapes do not fit"),
        ({"mean": np.zeros(3), "kernel": np.zeros((2, 2))}, "shapes do not fit"),
        ({"mean": np.zeros(3)}, "holds no whitening"),
    ],
)
def test_whitening_that_is_none(tmp_path: Path, arrays: dict, message: str) -> None:
    np.savez(tmp_path / "w.npz", **arrays)
    with pytest.raises(DataError, match=message):
        load_whitening(tmp_path / "w.npz")


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_whitening_that_was_cut(tmp_path: Path, share: float) -> None:
    path = tmp_path / "w.npz"
    Whitening(np.zeros(30, np.float32), np.ones((30, 9), np.float32)).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(DataError, match="holds no whitening"):
        load_whitening(path)


@pytest.mark.parametrize("dimensions", [-3, 0, 5])
def test_whitening_to_dimensions_that_there_are_not(dimensions: int) -> None:
    with pytest.raises(ConfigError, match=f"dimensions is {dimensions}; expected 1 to 4"):
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
    with pytest.raises(DataError, match="3 texts vary in 2 directions; 3 were asked"):
        moments.fit(3)
