"""Vectors in a pipeline of scikit-learn."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from bertwright.inference.model import load
from bertwright.inference.sklearn import BertVectors

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
