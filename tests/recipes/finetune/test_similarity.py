"""Sentence vectors trained, saved and used, by the same functions as any other kind of task."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertwright
from bertwright.checkpoint.convert import convert
from bertwright.cli.app import run as run_verb
from bertwright.errors import ConfigError
from bertwright.tasks.predictions import SimilarityPrediction
from tests.task_files import LETTERS, write_model

Row = dict[str, Any]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "bert")


def shuffled(count: int, seed: int = 0) -> list[Row]:
    """Pairs of texts of the same letters in another order."""
    chance, rows = random.Random(seed), []
    for _ in range(count):
        words = [chance.choice(LETTERS) for _ in range(chance.randint(3, 7))]
        again = chance.sample(words, len(words))
        rows.append({"anchor": " ".join(words), "positive": " ".join(again)})
    return rows


def learn(model: Path, out: Path, rows: list[Row], **settings: Any) -> bertwright.Run:
    usual: dict[str, Any] = {"epochs": 1.0, "batch_size": 8, "learning_rate": 1e-3}
    usual |= {"precision": "fp32", "device": "cpu", "progress": False, "dev": rows}
    return bertwright.finetune("similarity", model=model, train=rows, out=out, **usual | settings)


def first_loss(run: bertwright.Run) -> float:
    lines = (run.folder / "metrics.jsonl").read_text().splitlines()
    return next(float(r["loss"]) for r in map(json.loads, lines) if r["split"] == "train")


def test_negatives_are_all_texts_of_a_step(model: Path, tmp_path: Path) -> None:
    rows = shuffled(8)
    settings: dict[str, Any] = {"dropout": 0.0, "baselines": False}
    found = [
        learn(model, tmp_path / f"{tokens}", rows, micro_tokens=tokens, **settings)
        for tokens in (16, 1024)
    ]
    assert first_loss(found[0]) == pytest.approx(first_loss(found[1]), rel=1e-4)
    vectors = [run.model.embed(["a b c", "d e"]) for run in found]
    assert np.allclose(vectors[0], vectors[1], atol=1e-3)


def test_a_run_is_a_folder_of_vectors(model: Path, tmp_path: Path) -> None:
    prompts = {"prompt": "a ", "prompt2": "b "}
    run = learn(model, tmp_path / "run", shuffled(16), sizes=(8,), pooling="mean-sqrt", **prompts)
    trained = run.model
    assert trained.says_vectors
    assert trained.vectors.normalize
    assert trained.prompts == {"query": "a ", "document": "b "}
    u = trained.embed(["c d"], prompt_name="query")[0]
    v = trained.embed(["d e"], prompt_name="document")[0]
    (predicted,) = trained.predict([("c d", "d e")])
    assert isinstance(predicted, SimilarityPrediction)
    assert predicted.value == pytest.approx(float(u @ v), abs=1e-5)
    assert run.metrics.keys() >= {"ndcg_at_10", "mrr", "recall_at_1"}
    baselines = run.results["baselines"]
    assert baselines.keys() == {"tfidf_cosine", "bm25", "untuned"}
    assert run.report.is_file()
    card = (run.folder / "model" / "README.md").read_text()
    assert "sentence-similarity" in card
    assert "SentenceTransformer" in card
    # another file, whose pairs have scores
    scored = [("a b", "a b", 5), ("a b", "c", 0), ("a", "a c", 3)]
    assert "spearman" in bertwright.evaluate(trained, scored, progress=False).metrics


def test_goes_on_from_a_folder_with_dense_layers(model: Path, tmp_path: Path) -> None:
    start = tmp_path / "start"
    vectors = {"pooling": "cls", "normalize": True, "max_length": 12, "prompts": {"query": "c "}}
    convert(model, start, "sentence-transformers", vectors=vectors)
    modules = json.loads((start / "modules.json").read_text())
    dense = {**modules[1], "idx": 2, "name": "2", "path": "2_Dense"}
    dense["type"] = "sentence_transformers.models.Dense"
    modules.insert(2, dense)
    (start / "modules.json").write_text(json.dumps(modules))
    write_dense(start / "2_Dense", 32, 6)
    (start / "MANIFEST.json").unlink()
    run = learn(start, tmp_path / "run", shuffled(8), epochs=1e-9, learning_rate=1e-9)
    before, after = bertwright.load(start), run.model
    assert after.vectors == before.vectors
    assert after.prompts == before.prompts
    assert np.allclose(before.embed(["a b"]), after.embed(["a b"]), atol=1e-5)
    assert after.embed(["a b"]).shape == (1, 6)


def write_dense(folder: Path, inputs: int, outputs: int) -> None:
    from safetensors.torch import save_file

    folder.mkdir()
    activation = "torch.nn.modules.activation.Tanh"
    config = {"in_features": inputs, "out_features": outputs, "bias": True}
    (folder / "config.json").write_text(json.dumps(config | {"activation_function": activation}))
    weight = torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(0))
    tensors = {"linear.weight": weight, "linear.bias": torch.zeros(outputs)}
    save_file(tensors, folder / "model.safetensors")


def test_options_of_other_heads_are_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="features"):
        learn(model, tmp_path / "a", shuffled(8), transfer="features")
    with pytest.raises(ConfigError, match=r"sizes has 64.*32"):
        learn(model, tmp_path / "b", shuffled(8), sizes=(64,))


def test_learns_from_plain_text(model: Path, tmp_path: Path) -> None:
    chance = random.Random(0)
    documents = []
    for number in range(12):
        sentences = [" ".join(chance.choices(LETTERS, k=8)) + "." for _ in range(4)]
        title = ["a b c"] if number % 2 else []
        documents.append("\n".join([*title, *sentences]))
    (tmp_path / "corpus.txt").write_text("\n\n".join(documents))
    words = ["finetune", "similarity", "--model", str(model), "--epochs", "1"]
    words += ["--corpus", str(tmp_path / "corpus.txt"), "--learning-rate", "1e-3"]
    assert run_verb([*words, "--out", str(tmp_path / "run")]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    examples = [results["data"][side]["examples"] for side in ("train", "dev")]
    assert sum(examples) == 6 * 2 + 6 * 3
    assert results["main"] == "ndcg_at_10"
    # a sentence and itself tell nothing about held-out text
    dropout = [*words, "--corpus-pairs", "dropout", "--out", str(tmp_path / "other")]
    assert run_verb(dropout) == 2
    dev = tmp_path / "dev.tsv"
    rows = [f"a {letter}\tb {letter}\t{n}\n" for n, letter in enumerate("cdef")]
    dev.write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    assert run_verb([*dropout, "--dev", str(dev)]) == 0
    results = json.loads((tmp_path / "other" / "results.json").read_text())
    assert results["main"] == "spearman"
    assert results["data"]["train"]["examples"] == 12 * 4 + 6


def test_plain_text_is_for_vectors(model: Path, tmp_path: Path) -> None:
    words = ["finetune", "classification", "--model", str(model), "--out", str(tmp_path / "run")]
    assert run_verb([*words, "--corpus", str(tmp_path)]) == 2
    assert run_verb([*words, "--dev", "x"]) == 2


def test_learns_from_the_vectors_of_a_teacher(model: Path, tmp_path: Path) -> None:
    rows = shuffled(24)
    teacher = bertwright.load(model)
    texts = [row["anchor"] for row in rows]
    settings: dict[str, Any] = {"teacher": str(model), "random_start": True, "learning_rate": 3e-3}
    run = learn(model, tmp_path / "run", rows, epochs=8.0, **settings)
    assert run.model.tasks["task"].objective == "teacher"
    of_teacher, found = teacher.embed(texts), run.model.embed(texts)
    untrained = learn(model, tmp_path / "other", rows, random_start=True, epochs=1e-9)

    def distance(vectors: Any) -> float:
        unit = of_teacher / np.linalg.norm(of_teacher, axis=1, keepdims=True)
        return float(np.square(vectors - unit).sum(1).mean())

    assert distance(found) < 0.7 * distance(untrained.model.embed(texts))
    # with the first numbers of a vector, which are fewer than the teacher's
    assert first_loss(learn(model, tmp_path / "few", rows, sizes=(8,), **settings)) > 0


def test_learns_from_the_scores_of_a_teacher(model: Path, tmp_path: Path) -> None:
    rows = shuffled(12)
    labelled = [(row["anchor"], row["positive"], len(row["anchor"])) for row in rows]
    quick: dict[str, Any] = {"epochs": 1.0, "learning_rate": 1e-3, "progress": False}
    bertwright.finetune(
        "regression", model=model, train=labelled, dev=labelled, out=tmp_path / "teacher", **quick
    )
    run = learn(model, tmp_path / "run", rows, teacher=str(tmp_path / "teacher"))
    assert run.model.tasks["task"].objective == "cosent"
    with pytest.raises(ConfigError, match="in-batch"):
        learn(model, tmp_path / "x", rows, teacher=str(model), objective="in-batch")


def test_plain_text_in_python(model: Path, tmp_path: Path) -> None:
    lines = [[row["anchor"], row["positive"]] for row in shuffled(24)]
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n\n".join(f"{a} {b} {a}.\n{b} {a} {b}." for a, b in lines))
    run = bertwright.finetune(
        "similarity",
        model=model,
        corpus=[str(corpus)],
        out=tmp_path / "run",
        epochs=1.0,
        learning_rate=1e-3,
        progress=False,
    )
    assert 0 < run.results["metrics"]["recall_at_10"] <= 1
