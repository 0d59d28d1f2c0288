"""Cross-encoders: the scores of `CrossEncoder.predict`, from every form of folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from bertwright.checkpoint.convert import convert
from bertwright.config.serve import ServeConfig
from bertwright.errors import DataError
from bertwright.inference.model import load
from bertwright.recipes.finetune.teacher import teach
from bertwright.serve.app import make_app
from bertwright.tasks.similarity.kind import SimilarityExample
from bertwright.tasks.texts.options import ClassificationTask, RegressionTask
from tests.raising import raises
from tests.serve.conftest import until_ready
from tests.small_bert import CONFIG, write_model

PAIRS = [("a b", "c"), ("the dog.", "x y z"), ("q", "the"), ("a", "b c d e")]
ACTIVATION = "torch.nn.modules.activation"
KEY, OLDER = "sentence_transformers", "sbert_ce_default_activation_function"
IDENTITY = "torch.nn.modules.linear.Identity"
FORMS: dict[str, dict[str, Any]] = {
    "sigmoid": {KEY: {"version": "4.1.0", "activation_fn": f"{ACTIVATION}.Sigmoid"}},
    "identity": {KEY: {"version": "4.1.0", "activation_fn": IDENTITY}},
    "none said": {KEY: {"version": "4.1.0"}},
    "not of torch": {KEY: {"activation_fn": "module.Function"}},
    "older sigmoid": {OLDER: f"{ACTIVATION}.Sigmoid"},
    "older identity": {OLDER: IDENTITY, "problem_type": None},
    "no key": {"problem_type": None},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A classifier with one label, as transformers writes it."""
    task = RegressionTask(max_length=12, stride=2)
    config = replace(CONFIG, max_position_embeddings=12)
    write_model(tmp_path / "model", [], config, tasks={"score": task}, std=0.4)
    (tmp_path / "model" / "task.json").unlink()
    return tmp_path / "model"


def change(folder: Path, **content: Any) -> None:
    path = folder / "config.json"
    whole = {**json.loads(path.read_text()), **content}
    path.write_text(json.dumps({key: x for key, x in whole.items() if x is not None}))


def theirs(folder: Path) -> Any:
    library = pytest.importorskip("sentence_transformers")
    return library.CrossEncoder(str(folder), device="cpu")


def ours(folder: Path) -> list[float]:
    return [each.as_dict()["value"] for each in load(folder, device="cpu").predict(PAIRS)]


@pytest.mark.parametrize("form", FORMS)
def test_the_same_scores(folder: Path, form: str, tmp_path: Path) -> None:
    change(folder, **FORMS[form])
    expected = pytest.approx(theirs(folder).predict(PAIRS).tolist(), abs=1e-6)
    assert ours(folder) == expected
    convert(folder, tmp_path / "again")
    assert ours(tmp_path / "again") == expected
    assert theirs(tmp_path / "again").predict(PAIRS).tolist() == expected
    assert load(tmp_path / "again").is_cross_encoder == (form != "no key")


@pytest.mark.parametrize("name", [f"{ACTIVATION}.Sigmoid", IDENTITY])
def test_a_folder_of_the_installed_version(folder: Path, tmp_path: Path, name: str) -> None:
    change(folder, **{KEY: {"activation_fn": name}})
    model = theirs(folder)
    model.save_pretrained(str(tmp_path / "saved"))
    assert ours(tmp_path / "saved") == pytest.approx(model.predict(PAIRS).tolist(), abs=1e-6)


def test_several_labels(tmp_path: Path) -> None:
    task = ClassificationTask(labels=("no", "maybe", "yes"), max_length=12, stride=2)
    folder = write_model(tmp_path / "model", [], CONFIG, tasks={"score": task}, std=0.4)
    (folder / "task.json").unlink()
    change(folder, **{KEY: {"activation_fn": f"{ACTIVATION}.Sigmoid"}})
    predicted = load(folder, device="cpu").predict(PAIRS)
    found = [list(each.as_dict()["scores"].values()) for each in predicted]
    for row, expected in zip(found, theirs(folder).predict(PAIRS).tolist(), strict=True):
        assert row == pytest.approx(expected, abs=1e-6)


def test_a_number_of_transformers_stays_a_number(folder: Path) -> None:
    """`problem_type` says that it is a regression, and nothing that it is a cross-encoder."""
    change(folder, **FORMS["identity"])
    numbers = ours(folder)
    change(folder, **{KEY: None})
    assert json.loads((folder / "config.json").read_text())["problem_type"] == "regression"
    assert ours(folder) == numbers


def test_what_is_not_read(folder: Path) -> None:
    change(folder, **{KEY: {"activation_fn": f"{ACTIVATION}.Tanh"}})
    raises(DataError, "Tanh", load, folder)
    change(folder, **{KEY: {"activation_fn": 3}})
    raises(DataError, "activation_fn", load, folder)
    change(folder, **{KEY: None})
    settings = {"prompts": {"q": "query: "}, "default_prompt_name": "q"}
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps({"model_type": "CrossEncoder", **settings}))
    raises(DataError, "default_prompt_name", load, folder)


@pytest.mark.parametrize("form", ["sigmoid", "no key"])
def test_ranks_and_teaches(folder: Path, form: str) -> None:
    change(folder, **FORMS[form])
    query, documents = "a b", ["c", "the dog.", "x y z"]
    expected = theirs(folder).predict([(query, each) for each in documents]).tolist()
    with TestClient(make_app(ServeConfig(model=(str(folder),), device="cpu"))) as client:
        until_ready(client)
        for route, name in (("/rerank", "score"), ("/v1/rerank", "relevance_score")):
            reply = client.post(route, json={"query": query, "documents": documents}).json()
            scores = {each["index"]: each[name] for each in reply["results"]}
            assert [scores[n] for n in range(3)] == pytest.approx(expected, abs=1e-5)
            assert list(scores.values()) == sorted(scores.values(), reverse=True)
        given = [[query, each] for each in documents]
        results = client.post("/classify", json={"input": given}).json()["results"]
        assert [each["score"] for (each,) in results] == pytest.approx(expected, abs=1e-5)
    examples = [SimilarityExample(query, each) for each in documents]
    taught, of_vectors = teach(examples, str(folder), "cpu", lambda line: None)
    assert not of_vectors
    assert [each.label for each in taught] == pytest.approx(expected, abs=1e-6)
