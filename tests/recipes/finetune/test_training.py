"""Seeds that diverge: named, left out of the figures, and an error where there is no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertwright.errors import BertwrightError, DataError
from bertwright.nn.finite import NotFinite
from bertwright.recipes.finetune import training
from tests.task_files import learn, write_files


def test_a_seed_that_diverges_is_told_and_the_others_are_kept(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, dev = write_files(tmp_path, "regression", train=20, dev=10)
    out, real, looks = tmp_path / "run", training.predict, [0]

    def second_fails(*given: Any) -> Any:
        looks[0] += 1
        if looks[0] == 4:  # the end of seed 2; each seed begins with the fitted head
            raise NotFinite("scores")
        return real(*given)

    monkeypatch.setattr(training, "predict", second_fails)
    results, said = learn(model, out, "regression", train, dev, seeds=3, epochs=1.0)
    assert [seed["seed"] for seed in results["seeds"]] == [1, 3]
    assert results["diverged"] == [2]
    assert any("diverged: lower --learning-rate (seed 2" in line for line in said)
    assert any("1 of 3 seeds (2) diverged" in line for line in results["warnings"])
    assert json.loads((out / "results.json").read_text())["diverged"] == [2]


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_where_all_diverge_the_run_has_failed(kind: str, model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, kind, train=40, dev=10)
    changes = {"seeds": 2, "epochs": 3.0, "learning_rate": 1e37, "warmup": 0.0}
    with pytest.raises(BertwrightError, match=r"diverged: every seed \(1, 2\) .*1e\+37") as failed:
        learn(model, tmp_path / "run", kind, train, dev, **changes)
    assert failed.value.exit_code == 1
    assert not isinstance(failed.value, DataError)
    assert not (tmp_path / "run" / "results.json").exists()
