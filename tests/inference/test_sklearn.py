"""Vectors in a pipeline of scikit-learn."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults, write_defaults
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference.model import load
from bertwright.inference.sklearn import BertVectors
from bertwright.inference.vectors.whitening import Whitening

TEXTS = ["a b", "c d", "a a b", "c d d"] * 3
LABELS = [0, 1] * 6


def test_in_a_pipeline(model_folder: Path) -> None:
    step = BertVectors(str(model_folder), layers=(-1,), pooling="max")
    pipe = clone(make_pipeline(step, LogisticRegression(C=100.0))).fit(TEXTS, LABELS)
    assert pipe.score(TEXTS, LABELS) == 1.0
    right = load(model_folder).embed(TEXTS, [-1], "max")
    np.testing.assert_allclose(pipe[0].transform(np.array(TEXTS)), right, atol=1e-5)
    again = pickle.loads(pickle.dumps(pipe))
    np.testing.assert_array_equal(again.predict(TEXTS), pipe.predict(TEXTS))
    assert len(pickle.dumps(pipe[0])) < 2000
    assert list(pipe[0].get_feature_names_out()[:2]) == ["bert0", "bert1"]


def test_a_changed_parameter_counts(model_folder: Path) -> None:
    step = BertVectors(str(model_folder)).fit(TEXTS)
    assert step.n_features_out_ == 24
    step.set_params(layers=(0, 1))
    assert step.transform(TEXTS).shape == (12, 48)
    for layers in (np.array([0, 1]), np.array([1, 2, 3])):
        step.set_params(layers=layers)
        assert step.transform(TEXTS).shape == (12, 24 * len(layers))
    layers[:] = 2
    right = BertVectors(model_folder, layers=[2] * 3).transform(TEXTS)
    np.testing.assert_array_equal(step.transform(TEXTS), right)
    with pytest.raises(ConfigError, match="pooling is ''"):
        step.set_params(pooling="").transform(TEXTS)


def test_a_column_is_texts(model_folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    texts = TEXTS[:3]
    step = BertVectors(str(model_folder))
    right = step.fit_transform(texts)
    frame = pandas.DataFrame({"text": texts, "other": texts}, index=[7, 8, 9])
    for column in (frame[["text"]], frame["text"], np.array(texts)[:, None], np.array(texts)):
        np.testing.assert_array_equal(step.fit_transform(column), right)
    for wrong in (frame, np.array([texts, texts]), np.array("a")):
        with pytest.raises(DataError, match="one column"):
            step.transform(wrong)
    with pytest.raises(DataError, match="one str"):
        step.transform("hello")
    with pytest.raises(DataError, match=r"NoneType.*list"):
        step.transform(None)


@pytest.mark.slow
def test_parameters_are_those_of_embed(model_folder: Path, tmp_path: Path) -> None:
    step = BertVectors(str(model_folder), layers=-1, max_length=4, truncate=True)
    config = VectorConfig((-1,), truncate=True, max_length=4)
    right = load(model_folder).embedder(config).embed(["a b c d"])
    np.testing.assert_array_equal(clone(step).fit_transform(["a b c d"]), right)
    whitening = Whitening(np.zeros(24, np.float32), np.ones((24, 2), np.float32))
    whitening.save(tmp_path / "w.npz")
    step.set_params(whitening=tmp_path / "w.npz")
    np.testing.assert_allclose(step.transform(["a b c d"])[:, 0], right.sum(1), atol=1e-5)
    for wrong in (0, "4"):
        with pytest.raises(ConfigError, match=f"max_length.*{wrong!r}.*3"):
            BertVectors(str(model_folder), max_length=wrong).fit(TEXTS)
    with pytest.raises(ConfigError, match=r"layers is \(1.5,\)"):
        BertVectors(str(model_folder), layers=1.5).fit(TEXTS)


@pytest.mark.slow
def test_numbers_of_numpy_may_be_searched(model_folder: Path) -> None:
    pipe = make_pipeline(BertVectors(str(model_folder)), LogisticRegression())
    grid = {"bertvectors__layers": np.arange(-2, 0), "bertvectors__max_length": np.array([4])}
    search = GridSearchCV(pipe, grid, cv=2, error_score="raise").fit(TEXTS, LABELS)
    assert search.best_params_["bertvectors__layers"] in (-2, -1)


@pytest.mark.slow
def test_prompts_and_dimensions(model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    told = {"query": "c ", "passage": "d "}
    known = EmbeddingDefaults(max_length=9, prompts=told, default_prompt_name="passage")
    write_defaults(folder, known, 24)
    plain = load(folder)
    step = BertVectors(str(folder))
    for change, prompt in (
        ({}, "d "),
        ({"prompt_name": "query"}, "c "),
        ({"prompt_name": None, "prompt": ""}, ""),
    ):
        found = step.set_params(**change).transform(TEXTS)
        right = plain.embed([prompt + text for text in TEXTS], [-1], prompt="")
        np.testing.assert_allclose(found, right, atol=1e-5)
    step.set_params(dimensions=3)
    np.testing.assert_allclose(step.transform(TEXTS), right[:, :3], atol=1e-5)
    assert len(step.get_feature_names_out()) == 3
    with pytest.raises(ConfigError, match="no prompt 'x'"):
        step.set_params(prompt=None, prompt_name="x").fit(TEXTS)
