"""A search evaluated beside shared words."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from bertwright.cli.app import run
from bertwright.inference.files.retrieval import figures_of_query
from tests.inference.files.conftest import write_search


def test_figures_of_a_query() -> None:
    gains = np.array([0.0, 2.0, 0.0, 1.0])
    ndcg, reciprocal, at_1, at_10, at_100 = figures_of_query(gains, [3.0, 2.0, 1.0])
    best = 3 + 2 / math.log2(3) + 1 / 2
    assert ndcg == pytest.approx((2 / math.log2(3) + 1 / math.log2(5)) / best)
    assert (reciprocal, at_1) == (0.5, 0.0)
    assert at_10 == at_100 == pytest.approx(2 / 3)


def test_evaluate_shows_it_beside_shared_words(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_search(tmp_path / "data")
    words = ["evaluate-search", "--model", str(model_folder), "--data", str(data)]
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["examples"] == 2
    # the document that is the query itself is left out
    assert found["baselines"]["bm25"]["recall_at_1"] == pytest.approx((0.5 + 1) / 2)
    low, high = found["intervals"]["ndcg_at_10"]
    assert low <= found["metrics"]["ndcg_at_10"] <= high
    assert run(words) == 0
    assert "BM25" in capsys.readouterr().out
    assert run(["evaluate", *words[1:]]) == 2
    assert " ".join(words) in capsys.readouterr().err
