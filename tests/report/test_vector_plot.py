"""The plot of a corpus: dots where they belong, colours by a column, texts escaped."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bertwright.errors import DataError
from bertwright.report.pages import vector_page
from bertwright.report.vector_plot import project


@pytest.mark.parametrize("how", ["pca", "tsne"])
def test_groups_stay_apart(how: str) -> None:
    chance = np.random.default_rng(0)
    vectors = chance.standard_normal((40, 6)).astype(np.float32)
    vectors[20:] += 20
    points, facts = project(vectors, how)
    assert points.shape == (40, 2)
    assert ("40", "texts") in facts
    within = np.linalg.norm(points[:20] - points[:20].mean(0), axis=1).max()
    assert np.linalg.norm(points[:20].mean(0) - points[20:].mean(0)) > within


def test_the_page_colours_and_escapes() -> None:
    points = np.arange(24, dtype=np.float32).reshape(12, 2)
    values = [f"k{n}" for n in range(11)] + ["k0"]
    page = vector_page("in<b>", points, ["<script>"] * 12, values, "kind", [("12", "texts")])
    assert page.count("<title>") == 1 + 12
    assert "<script>" not in page
    assert "in<b>" not in page
    assert "<bdi>k0</bdi> (2)" in page
    assert "<bdi>others</bdi> (2)" in page
    assert len(set(re.findall('fill="(#[^"]*)"', page))) == 10
    assert 'viewBox="0 0 720 720"' in page


def test_the_page_is_as_high_as_its_dots() -> None:
    points = np.array([[0, 0], [10, 0], [5, 5]], np.float32)
    page = vector_page("texts", points, ["a"] * 3, ["רע"] * 3, None)
    assert 'viewBox="0 0 720 376"' in page


def test_a_dot_says_its_text_and_column() -> None:
    points = np.arange(24, dtype=np.float32).reshape(12, 2)
    values = [f"k{n}" for n in range(12)]
    page = vector_page("texts", points, ["one"] * 12, values, "kind")
    assert "(kind: k3)" in page


def test_a_table_says_what_the_marks_show() -> None:
    # for those who do not point: every text leads to its mark
    points = np.array([[0, 0], [9, 0], [1, 0], [8.5, 0], [1, 0]], np.float32)
    values = ["a", "b", "a", "b", "<i>"]
    page = vector_page("texts", points, ["one", "two <b>", "three", "", "five"], values, "kind")
    table = page.partition("<summary>The texts as a table</summary>")[2]
    rows = re.findall(
        r'<tr><td><a href="#(.*?)"><bdi>(.*?)</bdi></a></td><td>(.*?)</td>',
        table,
    )
    assert rows == [
        ("m0", "one", "a"),
        ("m1", "two &lt;b&gt;", "b"),
        ("m2", "three", "a"),
        ("m3", "(empty)", "b"),
        ("m4", "five", "&lt;i&gt;"),
    ]
    assert re.findall(r'<circle [^>]* id="(.*?)">', page) == [row[0] for row in rows]
    assert "5 marks" in page
    assert "<td>a</td>" not in vector_page("texts", points, ["one"] * 5, values, None)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("how", ["pca", "tsne"])
@pytest.mark.parametrize("noise", [0, 1e-7])
def test_vectors_that_are_all_the_same(how: str, noise: float) -> None:
    chance = np.random.default_rng(0)
    vectors = 5 + noise * chance.standard_normal((9, 6))
    points, facts = project(vectors.astype(np.float32), how)
    assert not points.any()
    assert facts[-1][0] == "0"
    assert "directions" in facts[-1][1]


@pytest.mark.parametrize("how", ["pca", "tsne"])
@pytest.mark.parametrize("shape", [(3, 6), (9, 1)])
def test_few_texts_and_few_numbers(how: str, shape: tuple[int, int]) -> None:
    vectors = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    points, _ = project(vectors, how)
    assert points.shape == (shape[0], 2)
    assert np.isfinite(points).all()


def test_what_has_no_place_on_a_plane() -> None:
    with pytest.raises(DataError, match=r"2 texts.*3"):
        project(np.zeros((2, 4), np.float32))
    with pytest.raises(DataError, match="not finite"):
        project(np.full((4, 4), np.nan, np.float32))


def test_a_long_value_is_cut_and_the_way_is_told() -> None:
    vectors = np.random.default_rng(0).standard_normal((9, 6)).astype(np.float32)
    for how, told in (("pca", "(PCA)"), ("tsne", "distances mean nothing")):
        points, facts = project(vectors, how)
        page = vector_page("texts", points, ["one"] * 9, ["v" * 300] * 9, "kind", facts)
        assert told in page
        assert f"<bdi>{'v' * 37}...</bdi> (9)" in page
        assert "v" * 118 not in page


def test_one_thread_makes_a_plane_of_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other work several wait for each other in each of a thousand steps, for minutes."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_info, threadpool_limits

    threads: set[int] = set()

    def fit_transform(_: object, vectors: np.ndarray) -> np.ndarray:
        threads.update(pool["num_threads"] for pool in threadpool_info())
        return vectors[:, :2]

    monkeypatch.setattr(TSNE, "fit_transform", fit_transform)
    with threadpool_limits(2):
        project(np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32), "tsne")
    assert threads == {1}
