"""The learning curve of a quickstart: what surrounds the runs (tests/cli runs it whole)."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from bertwright.config.finetune import FinetuneConfig
from bertwright.errors import Interrupted
from bertwright.recipes.quickstart import curve
from bertwright.recipes.quickstart.run import Places
from tests.recipes.quickstart.test_task import some_documents, write_corpus


@pytest.mark.parametrize(
    ("minutes", "sizes"),
    [(0.2, [100]), (1, [100, 400]), (5, [100, 400, 1600]), (30, [100, 400, 1600, 6400])],
)
def test_more_minutes_pay_for_more_labels(minutes: float, sizes: list[int]) -> None:
    assert curve.sizes_for(minutes) == sizes


def test_few_examples_are_seen_more_often() -> None:
    assert [curve.epochs_for(n) for n in (6, 96, 400, 1600, 6400)] == [20, 16, 8, 4, 3]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places(tmp_path)
    write_corpus(found, some_documents(300))
    (found.run / "environment.json").write_text('{"precision": "fp32"}')
    return found


def test_too_few_packages_are_no_error(tmp_path: Path) -> None:
    places = Places(tmp_path)
    write_corpus(places, some_documents(12))
    found = curve.learning_curve(places, 5)
    assert "0 packages here have documentation enough" in found["left_out"]
    assert json.loads((places.run / "learning_curve.json").read_text()) == found


def test_an_interruption_names_what_is_whole(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(tasks: Any, config: FinetuneConfig, *_: Any, **__: Any) -> None:
        Path(config.out).mkdir()
        raise Interrupted(signal.SIGINT, "interrupted before a seed was finished")

    monkeypatch.setattr(curve, "finetune", broken)
    with pytest.raises(Interrupted, match=r"the pre-trained model in .*run and .* are whole") as it:
        curve.learning_curve(places, 5)
    assert it.value.exit_code == 130
    assert not (places.folder / ".finetuning").exists()
    assert not (places.run / "learning_curve.json").exists()


def test_every_method_meets_the_same_files(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, FinetuneConfig]] = []

    def answer(tasks: Any, config: FinetuneConfig, *_: Any, **__: Any) -> dict[str, Any]:
        asked.append((tasks[0], config))
        share = len(asked) / 100
        return {
            "summary": {"accuracy": {"mean": share}},
            "intervals": {"accuracy": [share, share]},
            "degenerate": len(asked) == 1,
        }

    monkeypatch.setattr(curve, "finetune", answer)
    told: list[tuple[int, int | None]] = []
    found = curve.learning_curve(places, 3, lambda *done: told.append(done))
    assert found["sizes"] == [99, 399, 1599]
    by_name = {method["name"]: method for method in found["methods"]}
    assert by_name["pretrained"]["accuracy"] == [0.01, 0.04, 0.07]
    assert by_name["pretrained"]["degenerate"] == [True, False, False]
    assert by_name["frozen"]["accuracy"] == [0.02, 0.05, 0.08]
    assert by_name["random_start"]["accuracy"] == [0.03, 0.06, 0.09]
    assert by_name["majority"]["accuracy"] == [pytest.approx(1 / 3)] * 3
    assert by_name["tfidf"]["accuracy"][-1] > 0
    for place in (0, 3, 6):
        (first, tuned), (_, frozen), (third, random) = asked[place : place + 3]
        assert first == third
        assert (tuned.random_start, random.random_start) == (False, True)
        assert (tuned.epochs, tuned.learning_rate) == (random.epochs, random.learning_rate)
        assert (tuned.keep, frozen.transfer) == ("last", "features")
    assert [config.out == str(places.finetuned) for _, config in asked].index(True) == 6
    assert told[-1][0] == told[-1][1]
    assert f"--train {places.task}/train-1599.jsonl" in found["command"]
