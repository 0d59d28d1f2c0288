"""The vectors of any model evaluated on pairs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.stats import spearmanr

import bertwright
from bertwright.cli.app import run


def test_the_vectors_of_any_model_on_pairs(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("sentence1\tsentence2\tscore\na b\tb a\t5\na b\tj\t0\nc d\tc e\t3\n")
    words = ["--model", str(model_folder), "--data", str(file)]
    assert run(["evaluate-vectors", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    embedded = bertwright.load(model_folder).embed(
        ["a b", "b a", "j", "c d", "c e"], normalize=True
    )
    cosines = [float(embedded[a] @ embedded[b]) for a, b in ((0, 1), (0, 2), (3, 4))]
    expected = spearmanr(cosines, [5, 0, 3]).statistic
    assert found["metrics"]["spearman"] == pytest.approx(expected)
    assert run(["evaluate", *words, "--kind", "similarity"]) == 2
    assert " ".join(["evaluate-vectors", *words]) in capsys.readouterr().err
    assert run(["evaluate", *words]) != 0  # it has no task
