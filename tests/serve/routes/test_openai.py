"""OpenAI's protocol to the letter: the list of models, and headers."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from bertwright.atomic import write_manifest
from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults, write_defaults
from bertwright.nn.products import has_bfloat16
from bertwright.serve.engine.folder import examples_of
from tests.serve.conftest import TASKS, swap
from tests.small_bert import VOCABULARY

LONG = " ".join("abcdefghijklmnopqrst")
A, B = VOCABULARY.index("a"), VOCABULARY.index("b")
CLS, SEP = VOCABULARY.index("[CLS]"), VOCABULARY.index("[SEP]")


def embeddings(client: TestClient, **body: Any) -> Any:
    reply = client.post("/v1/embeddings", json=body)
    assert reply.status_code == 200, reply.text
    return reply


def test_what_is_told_of_a_model(client: TestClient) -> None:
    found = client.get("/v1/models/full").json()
    assert 0 <= time.time() - found.pop("created") < 3600
    assert found.pop("sha256") == client.post("/embed", json={"input": "a"}).json()["sha256"]
    tasks = [
        {
            "name": name,
            "kind": task.kind,
            "labels": list(task.labels),
            "multi_label": False,
            "pairs": True if name == "score" else None,
        }
        for name, task in TASKS.items()
    ]
    default = {"layers": [2], "pooling": "mean", "normalize": False, "prompt": ""}
    default |= {"max_tokens": 16, "width": 24}
    assert found == {
        "id": "full",
        "object": "model",
        "owned_by": "bertwright",
        "checkpoint": None,
        "damaged": [],
        "layers": 3,
        "attention_heads": 4,
        "hidden_size": 24,
        "max_tokens": 16,
        "precision": "fp32",
        "default": default,
        "examples": [],
        "generates": False,
        "vectors": True,
        "words": False,
        "similarity": None,
        "heads": ["masked_lm", "next_sentence"],
        "tasks": tasks,
    }


def test_a_damaged_checkpoint_that_was_skipped_is_listed_and_logged(
    bare: Path,
    tmp_path: Path,
    served: Callable[..., TestClient],
    caplog: pytest.LogCaptureFixture,
) -> None:
    steps = tmp_path / "run" / "checkpoints"
    for name in ("step-1", "step-2"):
        shutil.copytree(bare, steps / name)
        write_manifest(steps / name)
    client = served(model=(f"m={tmp_path / 'run'}",))

    def listed() -> tuple[str, list[str]]:
        found = client.get("/v1/models/m").json()
        return found["checkpoint"], found["damaged"]

    assert listed() == ("step-2", [])
    with (steps / "step-2" / "model.safetensors").open("ab") as weights:
        weights.write(b"x")
    for _ in range(2):  # a warning of Python's would come once
        caplog.clear()
        swap(client)
        assert listed() == ("step-1", ["step-2"])
        (logged,) = [each for each in caplog.records if each.levelname == "WARNING"]
        facts = vars(logged)["facts"]
        assert (facts["used"], facts["skipped"]) == ("step-1", "step-2")
        assert "model.safetensors" in facts["error"]


@pytest.mark.parametrize(
    ("card", "examples"),
    [
        ("# A card\n", []),
        ("---\nlibrary_name: x\n---\nwidget:\n- text: no\n", []),
        (
            '---\nwidget:\n- text: "a \\"[MASK]\\""\n'
            "- example_title: b\n  text: b c\ntags:\n- d\n---\n",
            ['a "[MASK]"', "b c"],
        ),
    ],
)
def test_examples_are_those_of_the_card(tmp_path: Path, card: str, examples: list[str]) -> None:
    (tmp_path / "README.md").write_text(card, "utf-8")
    assert examples_of(tmp_path) == examples


@pytest.mark.skipif(not has_bfloat16(), reason="needs a processor with bfloat16 products")
def test_the_precision_is_told(served: Callable[..., TestClient]) -> None:
    assert served(precision="bf16").get("/v1/models/full").json()["precision"] == "bf16"


def test_the_pooling_of_a_folder_is_told(
    bare: Path, tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(bare, folder)
    write_defaults(folder, EmbeddingDefaults("cls", max_length=16), 24)
    client = served(model=(str(folder),))
    assert client.get("/v1/models/mine").json()["default"]["pooling"] == "cls"
    assert client.post("/embed", json={"input": "a"}).json()["pooling"] == "cls"


def test_vectors_have_length_1_unless_the_folder_says_otherwise(
    bare: Path, tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    models = [f"plain={bare}"]
    for name, normalize in (("raw", False), ("scaled", True)):
        folder = tmp_path / name
        shutil.copytree(bare, folder)
        write_defaults(folder, EmbeddingDefaults("mean", normalize), 24)
        models.append(str(folder))
    client = served(model=tuple(models))
    for name, is_scaled in (("plain", True), ("raw", False), ("scaled", True)):
        reply = embeddings(client, input="a b", model=name)
        length = np.linalg.norm(reply.json()["data"][0]["embedding"])
        assert (abs(length - 1) < 1e-5) == is_scaled
        assert reply.headers["x-bertwright-normalized"] == str(is_scaled).lower()
        assert client.post("/embed", json={"input": "a b", "model": name}).json()["normalized"] == (
            name == "scaled"
        )


def test_headers_say_how_a_reply_was_made(client: TestClient) -> None:
    reply = embeddings(client, input=["a", LONG], dimensions=3)
    told = {
        name.removeprefix("x-bertwright-"): value
        for name, value in reply.headers.items()
        if name.startswith("x-bertwright-")
    }
    sha256 = client.get("/v1/models/full").json()["sha256"]
    made = {"layers": "2", "pooling": "mean", "normalized": "true"}
    assert told == {"sha256": sha256, "truncated": "1", **made}
    found = reply.json()
    assert (found["object"], found["model"]) == ("list", "full")
    assert found["usage"] == {"prompt_tokens": 19, "total_tokens": 19}
    assert [each["object"] for each in found["data"]] == ["embedding"] * 2
