"""A graph in place of a model's encoder, under the heads of its checkpoint. The graph is a stand-in
that computes with torch, so no runtime is needed, except where a test exports one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertwright
from bertwright.checkpoint.export.exported import Exported, Runtime
from bertwright.checkpoint.export.write import export
from bertwright.cli.app import run as run_verb
from bertwright.config.serve import ServeConfig
from bertwright.config.task import TaskConfig
from bertwright.data.batch import collate
from bertwright.errors import ConfigError
from bertwright.inference.backends import exported as backend
from bertwright.tasks.choices.options import MultipleChoiceTask
from bertwright.tasks.similarity.options import SimilarityTask
from bertwright.tasks.span.options import SpanTask
from bertwright.tasks.tagging.options import TaggingTask
from bertwright.tasks.texts.options import ClassificationTask, RegressionTask
from tests.small_bert import write_model

TASKS = {
    "mood": ClassificationTask(labels=("bad", "good"), max_length=12, stride=2),
    "names": TaggingTask(labels=("O", "B-A", "I-A"), scheme="iob2", max_length=12, stride=2),
}
TEXTS = ["a b the c", "d", "e f, g h i j k l m n"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("graph") / "model", [], tasks=TASKS)


@pytest.fixture
def graph(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the next export that is opened be the model's own encoder, `graph(layers=(2, 3))`."""
    encoder = bertwright.load(folder, device="cpu").runner.encoder

    def use(layers: tuple[int, ...] = (2, 3), head: str | None = None, noise: float = 0.0) -> None:
        def session(feed: Any) -> list[np.ndarray]:
            lengths = feed["attention_mask"].sum(1)
            rows = [ids[:n].tolist() for ids, n in zip(feed["input_ids"], lengths, strict=True)]
            kinds = [
                ids[:n].tolist() for ids, n in zip(feed["token_type_ids"], lengths, strict=True)
            ]
            inputs, order = collate(rows, kinds)
            with torch.no_grad():
                found = encoder(inputs, keep_layers=True)
            padded = []
            for number in layers:
                x = inputs.sequences.padded(found.layers[number]).numpy()
                arranged = np.empty_like(x)
                arranged[order] = x
                padded.append(arranged + noise * np.sign(arranged[..., ::-1]))
            return padded

        outputs = {f"layer_{number}": True for number in layers}
        made = Exported(Path("graph"), "onnx", False, head, None, outputs, layers, 12, session)
        monkeypatch.setattr(backend, "open_exported", lambda *_: made)

    return use


def test_heads_and_vectors_are_those_of_the_checkpoint(
    folder: Path, graph: Callable[..., None], tmp_path: Path
) -> None:
    graph()
    plain, exported = bertwright.load(folder, device="cpu"), bertwright.load(folder, exported="x")
    np.testing.assert_allclose(exported.embed(TEXTS), plain.embed(TEXTS), atol=1e-5)
    for task in TASKS:
        for one, other in zip(
            exported.predict(TEXTS, task), plain.predict(TEXTS, task), strict=True
        ):
            assert getattr(one, "label", None) == getattr(other, "label", None)
            assert getattr(one, "tags", None) == getattr(other, "tags", None)
    with pytest.raises(ConfigError, match="--layers 0"):
        exported.embed(TEXTS, layers=0)
    out = tmp_path / "out.jsonl"
    words = ["predict", "a b", "--model", str(folder), "--task", "mood", "--out", str(out)]
    assert run_verb([*words, "--exported", "x", "--precision", "fp32"]) == 0
    assert json.loads(out.read_text())["text"] == "a b"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"head": "mood"}, r"mood.*export onnx --model \S+model --task encoder"),
        ({"layers": (2,)}, "--layers 3"),
        ({"noise": 3.0}, "cosine"),
    ],
)
def test_an_export_that_does_not_fit(
    folder: Path, graph: Callable[..., None], how: dict[str, Any], message: str
) -> None:
    graph(**how)
    with pytest.raises(ConfigError, match=message):
        bertwright.load(folder, exported="x")


@pytest.mark.parametrize("runtime", ["onnx", "openvino"])
def test_every_head_reads_what_a_runtime_computes(runtime: Runtime, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip({"onnx": "onnxruntime"}.get(runtime, runtime))
    short: dict[str, Any] = {"max_length": 12, "stride": 2}
    inputs: dict[str, tuple[TaskConfig, list[Any]]] = {
        **{name: (task, TEXTS) for name, task in TASKS.items()},
        "score": (RegressionTask(**short), TEXTS),
        "find": (SpanTask(**short), [{"question": "a b", "context": "c d e f g h i j"}]),
        "choose": (
            MultipleChoiceTask(**short),
            [{"text": "a b", "choices": ["c d", "e", "f g h"]}],
        ),
        "near": (
            SimilarityTask(**short),
            [("a b", "c d"), ("e", "f")],
        ),
    }
    tasks = {name: task for name, (task, _) in inputs.items()}
    model = write_model(tmp_path / "model", [], tasks=tasks)
    export(model, tmp_path / "graph", runtime, head="encoder")
    plain = bertwright.load(model, device="cpu")
    exported = bertwright.load(model, exported=tmp_path / "graph")
    for name, (_, given) in inputs.items():
        found = [numbers(each.as_dict()) for each in exported.predict(given, name)]
        expected = [numbers(each.as_dict()) for each in plain.predict(given, name)]
        assert all(found)
        for one, other in zip(found, expected, strict=True):
            assert one == pytest.approx(other, abs=1e-4), name


def numbers(value: Any) -> list[float]:
    """Return the numbers in a prediction, in order."""
    if isinstance(value, (dict, list, tuple)):
        inner = value.values() if isinstance(value, dict) else value
        return [number for each in inner for number in numbers(each)]
    return [value] if isinstance(value, (int, float)) else []


def test_an_export_of_the_last_layer_alone_is_served(
    folder: Path, graph: Callable[..., None]
) -> None:
    """As `export --task encoder` writes it; the vectors of BERT are of the layer before."""
    from fastapi.testclient import TestClient

    from bertwright.serve.app import make_app

    graph(layers=(3,))
    config = ServeConfig(model=(f"m={folder}",), exported=("m=x",), log_requests=False)
    with TestClient(make_app(config)) as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.02)
        (found,) = client.post("/tag", json={"input": TEXTS[0]}).json()["results"]
        (plain,) = bertwright.load(folder, device="cpu").predict(TEXTS[:1], "names")
        assert found["tags"] == list(plain.as_dict()["tags"])
        refused = client.post("/embed", json={"input": TEXTS[0]})
        assert refused.status_code == 400
        assert "--layers 2" in refused.text
        assert client.post("/embed", json={"input": TEXTS[0], "layers": -1}).status_code == 200


def test_an_export_is_served(folder: Path, graph: Callable[..., None]) -> None:
    testing = pytest.importorskip("fastapi.testclient")
    from bertwright.serve.app import make_app

    graph()
    short = TEXTS[:2]  # a server truncates no text unasked
    config = ServeConfig(model=(f"m={folder}",), exported=("m=x",), log_requests=False)
    plain = bertwright.load(folder, device="cpu")
    with testing.TestClient(make_app(config)) as client:
        deadline = time.monotonic() + 60
        while client.get("/readyz").status_code != 200 and time.monotonic() < deadline:
            time.sleep(0.02)
        reply = client.post("/embed", json={"input": short}).json()
        np.testing.assert_allclose(reply["vectors"], plain.embed(short), atol=1e-4)
        found = client.post("/classify", json={"input": short, "task": "mood"}).json()
        labels = [each[0]["label"] for each in found["results"]]
        assert labels == [each.label for each in plain.predict(short, "mood")]  # type: ignore[union-attr]
        refused = client.post("/embed", json={"input": short, "layers": 1})
        assert (refused.status_code, "layer 2, 3" in refused.text) == (400, True)
    for exported in (("other=x",), ("m=x", "m=y")):
        with pytest.raises(ConfigError, match="exported is"):
            ServeConfig(model=(f"m={folder}",), exported=exported).exports  # noqa: B018
