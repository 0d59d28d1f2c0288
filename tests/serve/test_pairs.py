"""Heads trained on pairs, on single texts, and those that do not say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from bertwright.checkpoint.checkpoint import make_learner, save
from bertwright.config.task import TaskConfig
from bertwright.inference.model import load
from bertwright.tasks.similarity.options import SimilarityTask
from bertwright.tasks.texts.options import ClassificationTask, RegressionTask
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.serve.conftest import CONFIG, SHORT, check_no
from tests.small_bert import VOCABULARY, write_model

TEXT = ClassificationTask(labels=("x", "y"), text_column="text", **SHORT)
PAIR = replace(TEXT, text2_column="text2")
SERVED = Callable[..., TestClient]


def write(folder: Path, **tasks: TaskConfig) -> Path:
    folder.mkdir()
    make_tokenizer(VOCABULARY).save(folder.parent / "tokenizer")
    heads = [] if tasks else ["masked_lm"]
    save(folder, make_learner(CONFIG, heads, tasks), folder.parent / "tokenizer", "", tasks=tasks)
    return folder


@pytest.fixture
def taught(tmp_path: Path, served: SERVED) -> TestClient:
    """A model with a head for single texts and one for pairs."""
    return served(model=(str(write(tmp_path / "taught", single=TEXT, pairs=PAIR)),))


def classified(client: TestClient, given: Any, task: str) -> Any:
    return client.post("/classify", json={"input": given, "task": task})


def test_a_head_takes_what_it_was_trained_on(taught: TestClient) -> None:
    assert classified(taught, ["a", "b"], "single").status_code == 200
    assert classified(taught, [["a", "b"]], "pairs").status_code == 200
    error = check_no(classified(taught, ["a", ["a", "b"]], "single"), 400)
    assert error["code"] == "no_pairs"
    assert error["message"] == "input 1 is a pair; single was trained on single texts"
    error = check_no(classified(taught, [["a", "b"], "a"], "pairs"), 400)
    assert error["code"] == "needs_pair"
    assert error["message"].startswith("input 1 is one text; pairs was trained on pairs")


def test_rerank_asks_a_head_of_pairs(taught: TestClient) -> None:
    body = {"query": "a", "documents": ["b", "c"]}
    reply = taught.post("/rerank", json=body).json()
    assert (reply["task"], reply["label"]) == ("pairs", "y")
    error = check_no(taught.post("/rerank", json={**body, "task": "single"}), 400)
    assert error["code"] == "no_pairs"


def test_rerank_takes_the_vectors_of_a_task_where_no_head_reads_pairs(
    tmp_path: Path, served: SERVED
) -> None:
    vectors = SimilarityTask(**SHORT)
    body = {"query": "a", "documents": ["b", "a"]}
    client = served(model=(str(write(tmp_path / "near", single=TEXT, near=vectors)),))
    reply = client.post("/rerank", json=body).json()
    assert (reply["task"], reply["similarity"]) == ("near", "cosine")
    assert reply["results"][0] == {"index": 1, "score": pytest.approx(1, abs=1e-5)}
    client = served(model=(str(write(tmp_path / "both", pairs=PAIR, near=vectors)),))
    for task, similarity in ((None, None), ("near", "cosine")):
        reply = client.post("/rerank", json={**body, "task": task}).json()
        assert (reply["task"], reply["similarity"]) == (task or "pairs", similarity)
    plain = served(model=(str(write(tmp_path / "plain")),))
    error = check_no(plain.post("/v1/rerank", json=body), 400)
    assert "bertwright finetune similarity" in error["message"]


def test_models_tell_of_pairs(taught: TestClient, client: TestClient) -> None:
    def pairs(asked: TestClient) -> dict[str, Any]:
        (model, *_) = asked.get("/v1/models").json()["data"]
        return {task["name"]: task["pairs"] for task in model["tasks"]}

    assert pairs(taught) == {"single": False, "pairs": True}
    assert pairs(client)["mood"] is None
    assert pairs(client)["names"] is None


def test_a_model_of_one_segment_reads_pairs(tmp_path: Path, served: SERVED) -> None:
    config = replace(CONFIG, type_vocab_size=1)
    folder = write_model(tmp_path / "single", ["next_sentence"], config)
    client = served(model=(str(folder),))
    for path in ("/embed", "/next-sentence", "/attention"):
        given = ["a", "b"] if path == "/attention" else [["a", "b"]]
        reply = client.post(path, json={"input": given})
        assert reply.status_code == 200, reply.text


MARKS = [
    ("config.json", {"sentence_transformers": {"activation_fn": "x", "version": "4.1.0"}}),
    ("config.json", {"sbert_ce_default_activation_function": "x"}),
    ("config_sentence_transformers.json", {"model_type": "CrossEncoder"}),
]


@pytest.mark.parametrize(("name", "content"), MARKS)
def test_a_cross_encoder_judges_pairs(
    tmp_path: Path, served: SERVED, name: str, content: dict[str, Any]
) -> None:
    score = RegressionTask(text_column="text", **SHORT)
    folder = write(tmp_path / "judge", score=score)
    (folder / "task.json").unlink()  # as transformers writes one
    body = {"query": "a", "documents": ["b", "c d"]}
    unknown = served(model=(str(folder),))
    error = check_no(unknown.post("/rerank", json=body), 400)
    assert error["code"] == "which_task"
    for given in ("a", [["a", "b"]]):
        assert classified(unknown, given, "regression").status_code == 200
    file = folder / name
    known = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps({**known, **content}))
    if name != "config.json":
        part = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.Transformer"}
        (folder / "modules.json").write_text(json.dumps([part]))
    client = served(model=(str(folder),))
    reply = client.post("/rerank", json=body).json()
    assert reply["task"] == "regression"
    values = [
        each.as_dict()["value"] for each in load(folder, "cpu").predict([("a", "b"), ("a", "c d")])
    ]
    scores = {each["index"]: each["score"] for each in reply["results"]}
    assert scores == pytest.approx(dict(enumerate(values)), abs=1e-5)
    assert check_no(classified(client, "a", "regression"), 400)["code"] == "needs_pair"


def test_ids_without_a_token_fill_no_blank(tmp_path: Path, served: SERVED) -> None:
    folder = write(tmp_path / "double")
    lines = [*VOCABULARY[:-1], "a", "the"]  # "a" twice: the first id stands for nothing
    for path in folder.glob("*token*.json"):
        path.unlink()
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n")
    client = served(model=(str(folder),))
    for _ in range(2):
        reply = client.post("/fill-mask", json={"input": "the [MASK]", "top_k": 100})
        assert reply.status_code == 200, reply.text
    ((blank,),) = reply.json()["results"]
    assert len(blank) == len(set(lines))
    assert sorted(each["token_str"] for each in blank) == sorted(set(lines))
    assert {each["token_str"]: each["token"] for each in blank}["a"] == len(lines) - 2
