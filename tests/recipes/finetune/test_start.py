"""Heads that begin as fitted layers, pairs that are compared, few labels by cross-validation."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import bertwright
from bertwright.checkpoint.checkpoint import load
from bertwright.config.finetune import FinetuneConfig
from bertwright.errors import ConfigError
from bertwright.progress import silent
from bertwright.recipes.finetune import folds, seeds
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import TaskSpec
from bertwright.tasks.catalogue import files_and_options, kind_of
from bertwright.train.log import read_records
from bertwright.transfer.head_start import HeadStart
from tests.task_files import LETTERS, learn, write_files

LINEAR = ("classification", "regression", "tagging")
HARMFUL = {"learning_rate": 0.5, "warmup": 0.0, "epochs": 2.0}


def frozen(model: Path, out: Path, kind: str, train: Path, dev: Path | None) -> float:
    how = {"learning_rate": "auto", "epochs": None, "transfer": "features", "layers": "last"}
    results, _ = learn(model, out, kind, train, dev, **how)
    return float(results["metrics"][results["main"]])


@pytest.mark.parametrize("kind", LINEAR)
def test_a_run_that_training_harms_keeps_the_fitted_layer(
    kind: str, model: Path, tmp_path: Path
) -> None:
    train, dev = write_files(tmp_path, kind)
    results, _ = learn(model, tmp_path / "run", kind, train, dev, **HARMFUL)
    assert results["seeds"][0]["best_epoch"] == 0
    known = frozen(model, tmp_path / "frozen", kind, train, dev)
    assert results["metrics"][results["main"]] == pytest.approx(known, abs=1e-3)
    again = bertwright.evaluate(tmp_path / "run", str(dev), progress=False)
    assert again.metrics[results["main"]] == pytest.approx(known, abs=1e-3)
    held_out = [each for each in read_records(tmp_path / "run/metrics.jsonl") if "epoch" in each]
    assert held_out[0]["epoch"] == 0


def test_a_layer_of_classes_is_scaled_and_one_of_numbers_is_not(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[float] = []
    place = HeadStart.place_to_train

    def noted(start: HeadStart, learner: object) -> None:
        place(start, learner)  # type: ignore[arg-type]
        weight = learner.objectives["task"].get_parameter("classifier.weight")  # type: ignore[attr-defined]
        (fit,) = start.fits.values()
        begun.append(weight.norm().item() / float((fit.weight**2).sum() ** 0.5))

    monkeypatch.setattr(HeadStart, "place_to_train", noted)
    for kind in ("classification", "regression"):
        train, dev = write_files(tmp_path, kind)
        learn(model, tmp_path / kind, kind, train, dev, epochs=1.0)
    assert begun[0] < 0.5
    assert begun[1] == pytest.approx(1)


def test_a_head_that_was_trained_before_is_not_fitted_again(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "classification")
    learn(model, tmp_path / "first", "classification", train, dev)
    how = {"learning_rate": 1e-9, "epochs": 1.0}
    learn(tmp_path / "first", tmp_path / "second", "classification", train, dev, **how)
    name = "classifier.weight"
    before, after = (
        load(tmp_path / run).learner.objectives["task"].get_parameter(name)
        for run in ("first", "second")
    )
    assert (before - after).abs().max() < 1e-6


@pytest.mark.parametrize("kind", LINEAR)
def test_few_labels_without_dev_are_cross_validated(kind: str, model: Path, tmp_path: Path) -> None:
    train, _ = write_files(tmp_path, kind, train=60)
    results, said = learn(model, tmp_path / "run", kind, train, None, baselines=True)
    assert any("predicted by a model that was trained on the other 4 of 5" in s for s in said)
    assert results["data"]["train"]["examples"] == results["data"]["dev"]["examples"] == 60
    assert results["data"]["dev"]["folds"] == 5
    assert results["examples"] == 60
    assert len((tmp_path / "run/dev-predictions.jsonl").read_text().splitlines()) == 60
    if kind == "regression":  # the mean of the other folds is not that of all
        assert results["baselines"]["mean"]["pearson"] < 0
    assert len(bertwright.load(tmp_path / "run").predict(["a b c"])) == 1
    if kind == "classification":  # all examples were trained on, not nine tenths
        again = bertwright.evaluate(tmp_path / "run", str(train), progress=False)
        assert any("60 of 60 rows" in warning for warning in again.warnings)


def test_cross_validation_tells_of_unseen_texts(model: Path, tmp_path: Path) -> None:
    """Labels that are drawn at random can be memorized, and not predicted."""
    chance = random.Random(1)
    rows = [
        {"text": " ".join(chance.choices(LETTERS, k=8)), "label": chance.choice("xy")}
        for _ in range(60)
    ]
    train = tmp_path / "train.jsonl"
    train.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "run"
    results, _ = learn(model, out, "classification", train, None, epochs=30.0)
    assert results["metrics"]["accuracy"] < 0.7
    seen = bertwright.evaluate(out, str(train), progress=False)
    if results["seeds"][0]["best_epoch"]:
        assert seen.metrics["accuracy"] > 0.9


def test_cross_validation_chooses_between_the_fitted_layer_and_training(
    model: Path, tmp_path: Path
) -> None:
    train, _ = write_files(tmp_path, "classification", train=60)
    known = frozen(model, tmp_path / "frozen", "classification", train, None)
    results, _ = learn(model, tmp_path / "run", "classification", train, None, **HARMFUL)
    assert results["seeds"][0]["best_epoch"] == 0
    assert results["metrics"]["accuracy"] == pytest.approx(known)
    last, _ = learn(model, tmp_path / "last", "classification", train, None, keep="last", **HARMFUL)
    assert last["seeds"][0]["best_epoch"] == HARMFUL["epochs"]
    trained, _ = learn(model, tmp_path / "long", "classification", train, None, epochs=20.0)
    assert trained["metrics"]["accuracy"] >= known


def test_folds_hold_out_each_example_once(model: Path, tmp_path: Path) -> None:
    train, _ = write_files(tmp_path, "classification", train=30)
    kind, keys = "classification", {"train": str(train)}
    task = TaskSpec("task", kind, *files_and_options(kind, keys), most_train=23)
    config = FinetuneConfig(str(model), str(tmp_path / "run"), epochs=1.0, device="cpu")
    found = []
    real = seeds.train_by_folds

    def noted(setup: object, *given: object) -> object:
        found.append(setup)
        return real(setup, *given)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeds, "train_by_folds", noted)
        results = finetune([task], config, silent)
    assert results["data"]["train"]["examples"] == 23
    (setup,) = found
    rows = folds.of_folds(setup, lambda fold: fold.held)  # type: ignore[arg-type]
    assert rows == list(range(23))
    for fold in setup.folds:  # type: ignore[attr-defined]
        assert set(fold.train).isdisjoint(fold.held)


def test_many_labels_or_several_tasks_are_held_out(model: Path, tmp_path: Path) -> None:
    train, _ = write_files(tmp_path, "classification", train=520)
    results, _ = learn(model, tmp_path / "run", "classification", train, None, epochs=1.0)
    assert "folds" not in results["data"]["dev"]
    assert results["data"]["train"]["examples"] + results["data"]["dev"]["examples"] == 520


def test_pairs_are_read_as_their_vectors_tell_more(model: Path, tmp_path: Path) -> None:
    """Whether two texts are equal is seen by comparing them, and a word of either by reading."""
    chance = random.Random(2)
    rows = []
    for number in range(200):
        first = " ".join(chance.choices(LETTERS, k=4))
        second = first if number % 2 else " ".join(chance.choices(LETTERS, k=4))
        rows.append({"text": first, "text2": second, "label": "same" if number % 2 else "other"})
    train = tmp_path / "train.jsonl"
    train.write_text("".join(json.dumps(row) + "\n" for row in rows))
    results, said = learn(model, tmp_path / "run", "classification", train, train, epochs=1.0)
    assert results["task"]["head"]["compares"]
    assert any("compared by their vectors" in line for line in said)
    pooler, _ = learn(
        model, tmp_path / "pooler", "classification", train, train, epochs=1.0, pooling="pooler"
    )
    assert not pooler["task"]["head"]["compares"]
    assert kind_of("classification").compares(load(tmp_path / "run").tasks["task"].options)


def test_a_pooler_that_a_model_lacks_is_an_error(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "classification")
    with pytest.raises(ConfigError, match="pooling is pooler"):
        learn(
            model,
            tmp_path / "run",
            "classification",
            train,
            dev,
            pooling="pooler",
            transfer="features",
        )
