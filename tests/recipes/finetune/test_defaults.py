"""What `finetune` does without options: frozen vectors under a fitted head, rates by trials."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bertwright
from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.errors import ConfigError, DataError, Interrupted
from bertwright.inference.model import Model
from bertwright.models.elmo.config import ElmoConfig
from bertwright.models.nnlm.config import NnlmConfig
from bertwright.models.word_vectors.config import Word2VecConfig
from bertwright.nn.encoder import EncoderSpec
from bertwright.recipes.finetune import defaults, rates, seeds
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import TaskSpec
from bertwright.tasks.texts.options import ClassificationOptions
from bertwright.train.log import read_records
from tests.inference.vectors.sample import LSTM, write
from tests.task_files import write_files

WORDS = ["the", "cat", "dog", "sat"]
ELMO = ElmoConfig(
    vocab_size=9, character_size=4, filters=((1, 4), (2, 5)), dim=7, projection_dim=3, n_layers=2
)
MODELS = {"word2vec": Word2VecConfig(9, 5), "nnlm": NnlmConfig(9, 5), "elmo": ELMO}
Rows = list[tuple[Any, ...]]


def texts(count: int, seed: int) -> list[str]:
    """Words of the vocabulary, and one that is not in it."""
    chance = random.Random(seed)
    return [
        " ".join(chance.choices([*WORDS, "unseen"], k=chance.randint(2, 6))) for _ in range(count)
    ]


def rows_of(kind: str, count: int, seed: int) -> Rows:
    """Examples that counts of words decide, but not all of them."""
    first, second = texts(count, seed), texts(count, seed + 1)
    if kind == "classification":
        return [(text, "many" if text.count("cat") > 1 else "few") for text in first]
    if kind == "pair":
        more = (a.count("cat") > b.count("cat") for a, b in zip(first, second, strict=True))
        return [(a, b, "yes" if m else "no") for a, b, m in zip(first, second, more, strict=True)]
    if kind == "multi-label":
        return [(text, [word for word in WORDS if word in text.split()]) for text in first]
    if kind == "regression":
        return [(text, text.count("cat") + 0.5 * text.count("dog")) for text in first]
    return [
        (text.split(), ["B-X" if w in ("cat", "dog") else "O" for w in text.split()])
        for text in first
    ]


def trained(folder: Path, kind: str, out: Path, **settings: Any) -> tuple[Model, dict[str, Any]]:
    """Fine-tune without options of how; the model and `results.json`."""
    name = {"pair": "classification", "multi-label": "classification"}.get(kind, kind)
    more = {"multi_label": True} if kind == "multi-label" else {}
    run = bertwright.finetune(
        name,
        model=folder,
        train=rows_of(kind, 60, 1),
        dev=rows_of(kind, 20, 5),
        out=out,
        progress=False,
        **more,
        **settings,
    )
    return bertwright.load(run.folder), json.loads((out / "results.json").read_text())


KINDS = ["classification", "pair", "multi-label", "regression", "tagging"]
CASES = [
    *(("word2vec", kind) for kind in KINDS),
    *(
        pytest.param(name, kind, marks=pytest.mark.slow)
        for name in ("nnlm", "elmo")
        for kind in KINDS
    ),
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_every_kind_is_fitted_on_frozen_vectors(name: str, kind: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", MODELS[name])
    model, results = trained(folder, kind, tmp_path / "run")
    assert results["transfer"] == "features"
    assert results["fit"]["rows"] == sum(
        len(row[0]) if kind == "tagging" else 1 for row in rows_of(kind, 60, 1)
    )
    before = bertwright.load(folder).runner.encoder.state_dict()
    after = model.runner.encoder.state_dict()
    assert all((before[key] == after[key]).all() for key in before)  # the encoder is as it was
    assert results["baselines"]  # a second on this file
    assert read_records(tmp_path / "run" / "metrics.jsonl")[-1]["split"] == "dev"
    main = results["summary"][results["main"]]["mean"]
    again = bertwright.evaluate(tmp_path / "run", rows_of(kind, 20, 5), progress=False)
    assert again.metrics[results["main"]] == pytest.approx(main)


@pytest.mark.parametrize("kind", ["classification", "pair"])
@pytest.mark.parametrize("name", [*MODELS, "awd-lstm"])
def test_probabilities_are_those_of_a_pipeline_on_vectors_of_embed(
    name: str, kind: str, tmp_path: Path
) -> None:
    folder = write(tmp_path / "model", MODELS.get(name, LSTM))
    how = {} if name in MODELS else {"transfer": "features"}
    tuned, results = trained(folder, kind, tmp_path / "run", **how)
    model, train, dev = bertwright.load(folder), rows_of(kind, 60, 1), rows_of(kind, 20, 5)

    def vectors(rows: Rows) -> Any:
        u = model.embed([row[0] for row in rows])
        if kind == "classification":
            return u
        v = model.embed([row[1] for row in rows])
        return np.concatenate([u, v, abs(u - v), u * v], 1)

    logistic = LogisticRegression(C=results["fit"]["C"], max_iter=1000)
    pipeline = make_pipeline(StandardScaler(), logistic)
    pipeline.fit(vectors(train), [row[-1] for row in train])
    softened = pipeline.predict_proba(vectors(dev)) ** (1 / results["fit"]["temperature"])
    expected = softened / softened.sum(1, keepdims=True)
    found = tuned.predict([row[:-1] if kind == "pair" else row[0] for row in dev])
    ours = [[each.scores[label] for label in pipeline.classes_] for each in found]
    np.testing.assert_allclose(ours, expected, atol=5e-3)


@pytest.mark.parametrize("name", ["word2vec", "elmo"])
def test_tags_are_those_of_a_pipeline_on_the_vectors_of_tokens(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", MODELS[name])
    tuned, results = trained(folder, "tagging", tmp_path / "run")
    model, train, dev = (
        bertwright.load(folder),
        rows_of("tagging", 60, 1),
        rows_of("tagging", 20, 5),
    )
    embedder = model.embedder(model.vectors.over(pooling="none"))

    def vectors(rows: Rows) -> Any:
        tokens = embedder.embed_tokens([" ".join(words) for words, _ in rows])
        return np.concatenate([each.vectors[1:-1] for each in tokens])

    logistic = LogisticRegression(C=results["fit"]["C"], max_iter=1000)
    pipeline = make_pipeline(StandardScaler(), logistic)
    pipeline.fit(vectors(train), [tag for _, tags in train for tag in tags])
    expected = pipeline.predict_proba(vectors(dev)).max(1)
    found = [score for each in tuned.predict([words for words, _ in dev]) for score in each.scores]
    np.testing.assert_allclose(found, expected, atol=5e-3)


def test_a_model_of_pairs_wants_two_texts(tmp_path: Path) -> None:
    model, _ = trained(write(tmp_path / "model", MODELS["word2vec"]), "pair", tmp_path / "run")
    with pytest.raises(DataError, match="one text"):
        model.predict(["the cat"])


def test_options_about_training_win(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", MODELS["word2vec"])
    for number, (settings, transfer) in enumerate(
        (
            ({"epochs": 1.0}, "features"),
            ({"learning_rate": 0.01, "epochs": 1.0}, "features"),
            ({"network": "bilstm", "epochs": 1.0}, "features"),
            ({"transfer": "finetune", "epochs": 1.0}, "finetune"),
        )
    ):
        _, results = trained(folder, "classification", tmp_path / str(number), **settings)
        assert results["transfer"] == transfer
        assert results["fit"] == {}
        assert results["settings"]["epochs"] == 1


def test_a_configuration_of_before_there_was_auto_trains_as_it_did(
    model: Path, tmp_path: Path
) -> None:
    """Keys that were written as `none`, or as what was the default, are not `auto`."""
    train, dev = write_files(tmp_path, "classification")
    config = FinetuneConfig(
        str(model),
        str(tmp_path / "run"),
        transfer="finetune",
        learning_rate=None,
        baselines=False,
        epochs=1.0,
        device="cpu",
    )
    task = TaskSpec(
        "task", "classification", TaskFilesConfig(str(train), str(dev)), ClassificationOptions()
    )
    results = finetune([task], config, lambda line: None)
    assert results["settings"]["learning_rate"] == defaults.usual_rate(config, 32)
    assert (results["learning_rates"], results["baselines"]) == ([], {})


def learned(
    model: Path, out: Path, tmp_path: Path, **changes: Any
) -> tuple[dict[str, Any], list[str]]:
    """Fine-tune a tiny BERT, by default without a rate; the results, and what was said."""
    train, dev = write_files(tmp_path, "classification")
    config = FinetuneConfig(
        str(model), str(out), epochs=8.0, device="cpu", precision="fp32", batch_size=8
    )
    files = TaskFilesConfig(str(train), changes.pop("dev", str(dev)))
    said: list[str] = []
    task = TaskSpec("task", "classification", files, ClassificationOptions())
    return finetune([task], replace(config, **changes), said.append, overwrite=True), said


@pytest.mark.slow
def test_several_rates_train_the_first_seed_whole(model: Path, tmp_path: Path) -> None:
    out, named = tmp_path / "run", "1e-9,3e-3,1e-8"
    changes = {"learning_rate": named, "seeds": 2, "epochs": 6.0, "batch_size": 16}
    changes["head_start"] = "random"  # otherwise all rates may keep the same fitted layer
    results, _ = learned(model, out, tmp_path, **changes)
    assert results["settings"]["learning_rate"] == 3e-3
    assert [trial["learning_rate"] for trial in results["learning_rates"]] == [1e-9, 3e-3, 1e-8]
    assert [seed["seed"] for seed in results["seeds"]] == [1, 2]
    scores = [trial["score"] for trial in results["learning_rates"]]
    assert results["seeds"][0]["metrics"]["accuracy"] == scores[1] == max(scores)
    alone, _ = learned(model, tmp_path / "alone", tmp_path, **{**changes, "learning_rate": 3e-3})
    assert alone["summary"] == results["summary"]
    records = read_records(out / "metrics.jsonl")
    assert {record["seed"] for record in records} == {1, 2}
    evaluated = [record["accuracy"] for record in records if record["split"] == "dev"]
    of_alone = read_records(tmp_path / "alone" / "metrics.jsonl")
    assert evaluated == [each["accuracy"] for each in of_alone if each["split"] == "dev"]


def test_several_rates_train_a_head_on_features(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", MODELS["word2vec"])
    how = {"learning_rate": "1e-9,0.05", "epochs": 20.0}
    model, results = trained(folder, "classification", tmp_path / "run", **how)
    assert (results["transfer"], results["settings"]["learning_rate"]) == ("features", 0.05)
    before = bertwright.load(folder).runner.encoder.state_dict()
    after = model.runner.encoder.state_dict()
    assert all((before[key] == after[key]).all() for key in before)


def test_options_without_effect_are_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", MODELS["word2vec"])
    task = TaskSpec(
        "task",
        "classification",
        TaskFilesConfig(str(tmp_path / "train.tsv")),
        ClassificationOptions(),
    )
    rows = rows_of("classification", 60, 1)
    text = "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *rows])
    (tmp_path / "train.tsv").write_text(text)
    config = FinetuneConfig(str(folder), str(tmp_path / "run"), batch_size=3, patience=2)
    said: list[str] = []
    finetune([task], config, said.append)
    (warning,) = [line for line in said if "of no effect" in line]
    assert "batch_size" in warning
    assert "patience" in warning
    assert "warmup" not in warning


def test_trials_of_other_data_or_settings_are_not_taken_over(tmp_path: Path) -> None:
    trial = {"learning_rate": 1e-3, "score": 0.5, "seconds": 1.0}
    file = tmp_path / rates.FILE
    file.write_text(json.dumps({"key": "a", "trials": [trial]}))
    assert rates.read_tried(tmp_path, "a") == {1e-3: trial}
    assert rates.read_tried(tmp_path, "b") == {}
    for damaged in ("", "[]", '{"key": "a"}', '{"key": "a", "trials": [1]}'):
        file.write_text(damaged)
        assert rates.read_tried(tmp_path, "a") == {}


@pytest.mark.slow
def test_trials_that_ended_before_a_kill_are_not_run_again(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, count, named = tmp_path / "run", 0, {"learning_rate": "1e-9,1e-8,3e-3", "epochs": 6.0}
    named["head_start"] = "random"
    train = seeds.train_seed

    def two_trials(*given: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        if count == 3:
            raise Interrupted(2, "")
        return train(*given, **more)

    monkeypatch.setattr(seeds, "train_seed", two_trials)
    with pytest.raises(Interrupted, match="--overwrite"):
        learned(model, out, tmp_path, **named)
    results, said = learned(model, out, tmp_path, **named)
    assert count == 4
    assert sum("before" in line for line in said if line.startswith("learning rate ")) == 2
    assert len(results["learning_rates"]) == 3
    before = count
    learned(model, out, tmp_path, **named, batch_size=9)  # other settings: none is taken over
    assert count == before + 3


@pytest.mark.parametrize("given", ["fast", "1e-4,", "1e-4,0", "1e-4,1e-4", "-1e-3", -1.0, 1e39])
def test_a_rate_that_is_none_is_refused(given: float | str) -> None:
    with pytest.raises(ConfigError, match="learning_rate is"):
        FinetuneConfig("model", "out", learning_rate=given)


def test_baselines_are_left_out_where_they_take_long(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "MOST_CHARACTERS", 100)
    quick = {"learning_rate": 1e-3, "epochs": 1.0}
    assert learned(model, tmp_path / "a", tmp_path, **quick)[0]["baselines"] == {}
    asked, _ = learned(model, tmp_path / "b", tmp_path, **quick, baselines=True)
    assert set(asked["baselines"]) == {"majority", "tfidf"}


def test_a_small_encoder_with_few_steps_learns_at_a_higher_rate() -> None:
    config = FinetuneConfig("m", "o")
    spec = EncoderSpec(width=256, depth=4, vocab_size=100, max_length=128)
    for steps, rate in {6000: 9e-5, 500: 9e-5, 125: 1.8e-4, 10: 2.7e-4}.items():
        assert defaults.fixed_rate(config, spec, 5_000_000, steps) == pytest.approx(rate)
        assert defaults.fixed_rate(config, spec, 50_000_000, steps) == pytest.approx(9e-5)
    random = replace(config, random_start=True)
    assert defaults.fixed_rate(random, spec, 5_000_000, 6000) == pytest.approx(2.7e-4)
    recurrent = replace(spec, max_length=None)
    assert defaults.fixed_rate(config, recurrent, 5_000_000, 10) == 3e-3
