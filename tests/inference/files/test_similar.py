"""The nearest vectors: stored in every form, block by block; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from bertwright.errors import ConfigError, DataError
from bertwright.inference.files import similar
from bertwright.inference.files.similar import nearest, strangest
from bertwright.inference.files.stored_vectors import Coder, Stored
from tests.raising import raises


def vectors(count: int, width: int = 13) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, width)).astype(np.float32)


def test_nearest_is_exact() -> None:
    chance = np.random.default_rng(0)
    corpus = chance.standard_normal((50, 8)).astype(np.float32)
    queries = chance.standard_normal((3, 8)).astype(np.float32)
    cosines = (queries @ corpus.T) / np.linalg.norm(corpus, axis=1)
    cosines /= np.linalg.norm(queries, axis=1, keepdims=True)
    rows, found = nearest(corpus, queries, 5)
    np.testing.assert_array_equal(rows, np.argsort(-cosines, axis=1)[:, :5])
    np.testing.assert_allclose(found, -np.sort(-cosines, axis=1)[:, :5], atol=1e-6)
    assert nearest(corpus[:2], queries, 5)[0].shape == (3, 2)
    assert nearest(np.tile(corpus[:1], (20, 1)), queries, 9)[0].tolist() == [[*range(9)]] * 3
    with pytest.raises(DataError, match=r"8 numbers.*5"):
        nearest(corpus, queries[:, :5], 5)
    raises(ConfigError, "top is 0", nearest, corpus, queries, 0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "binary"])
def test_every_form_is_searched(monkeypatch: pytest.MonkeyPatch, dtype: Stored) -> None:
    """13 numbers: the last byte of binary is not full."""
    monkeypatch.setattr(similar, "BLOCK", 4)
    corpus, coder = vectors(30) * np.arange(1, 31, dtype=np.float32)[:, None], Coder(dtype)
    stored = coder(corpus)
    rows, cosines = nearest(stored, corpus[[21, 3]], 3, coder.scales)
    assert rows[:, 0].tolist() == [21, 3]
    known = np.sign(corpus) if dtype == "binary" else corpus
    known = known / np.linalg.norm(known, axis=1, keepdims=True)
    asked = corpus[[21, 3]] / np.linalg.norm(corpus[[21, 3]], axis=1, keepdims=True)
    expected = np.take_along_axis(asked @ known.T, rows, 1)
    np.testing.assert_allclose(cosines, expected, atol=0.02 if dtype == "int8" else 1e-3)


@pytest.mark.parametrize("top", [1, 3, 7, 40])
def test_ties_are_in_the_order_of_the_rows(monkeypatch: pytest.MonkeyPatch, top: int) -> None:
    monkeypatch.setattr(similar, "BLOCK", 11)
    corpus = np.random.default_rng(0).integers(0, 2, (30, 3)).astype(np.float32)  # many are equal
    rows, cosines = nearest(corpus, np.array([[1, 1, 0], [0, 0, 1]], np.float32), top)
    _, every = nearest(corpus, np.array([[1, 1, 0], [0, 0, 1]], np.float32), 30)
    assert rows.shape == (2, min(top, 30))
    for of_query, values in zip(rows.tolist(), cosines.tolist(), strict=True):
        found = list(zip([-value for value in values], of_query, strict=True))
        assert found == sorted(found)
    np.testing.assert_array_equal(cosines, every[:, :top])


@pytest.mark.parametrize("width", [8, 17])
def test_bits_of_another_width_are_refused(width: int) -> None:
    with pytest.raises(DataError, match=f"16 numbers.*{width}"):
        nearest(Coder("binary")(vectors(3)), vectors(1, width), 1)


@pytest.mark.parametrize("shape", [(0, 13), (13,), (2, 2, 13)])
def test_what_is_no_corpus(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"corpus.*shape"):
        nearest(np.zeros(shape, np.float32), vectors(1), 1)


def test_a_row_that_is_not_finite_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similar, "BLOCK", 4)
    corpus = vectors(10)
    corpus[6, 2] = np.nan
    with pytest.raises(DataError, match="row 7"):
        nearest(corpus, vectors(1), 1)


@pytest.mark.parametrize("dtype", ["float32", "int8", "binary"])
def test_vectors_of_another_model_are_strange(dtype: Stored) -> None:
    corpus, coder = vectors(30), Coder(dtype)
    stored, rows = coder(corpus), [0, 15, 29]
    assert strangest(stored, corpus[rows], rows, coder.scales) is None
    found = strangest(stored, corpus[[0, 15, 28]], rows, coder.scales)
    assert found is not None
    assert found[0] == 29
