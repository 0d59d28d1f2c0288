"""`export`: what is written runs elsewhere, agrees with ours, and is refused where it does not."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bertwright.atomic import verify_manifest, write_manifest
from bertwright.checkpoint.checkpoint import load, make_learner, save
from bertwright.checkpoint.export import exported, graph_files
from bertwright.checkpoint.export import write as exporting
from bertwright.checkpoint.export.check import check_text, ours
from bertwright.checkpoint.export.exported import Exported, open_exported
from bertwright.checkpoint.export.graph_files import to_int8
from bertwright.checkpoint.export.padded import PaddedEncoder
from bertwright.checkpoint.export.write import export
from bertwright.checkpoint.sentence_transformers.folder import (
    EmbeddingDefaults,
    write_defaults,
)
from bertwright.errors import (
    BertwrightError,
    ConfigError,
    DataError,
    IntegrityError,
    MissingExtra,
)
from bertwright.inference.model import load as load_model
from bertwright.models.catalogue import MODELS
from bertwright.tasks.generation.options import GenerationOptions, GenerationTask
from bertwright.tasks.texts.options import ClassificationTask
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests import small_bert
from tests.checkpoint.conftest import VOCABULARY, embedding_of, new_learner
from tests.checkpoint.export.sample import TASKS, learner_of, stand_in
from tests.raising import raises

Written = tuple[Path, Path, dict[str, Any]]
TEXTS = ["a b, c?", "z y x w v u t s", "q!", "h e l l o ."]


def write_model(folder: Path, name: str = "encoder") -> Path:
    """A folder of random weights, with one task head or none."""
    folder.mkdir(parents=True)
    tokenizer = folder.parent / "tokenizer"
    tokenizer.mkdir()
    make_tokenizer(VOCABULARY).save(tokenizer)
    learner, tasks = new_learner(), {}
    if name in TASKS:
        learner, tasks = learner_of(name)[0], {name: TASKS[name]}
    save(folder, learner, tokenizer, "", tasks=tasks)
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A model, its int8 export for ONNX Runtime and the figures: written once."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("export")
    model = write_model(folder / "model")
    facts = export(model, folder / "out", "onnx", int8=True, sample=TEXTS, least=0.9)
    return model, folder / "out", facts


def compare(model: Path, exported: Exported) -> float:
    """The largest difference between a folder and its export, on sequences of several lengths."""
    loaded = load(model)
    ids = [[2, 7, 8, 3], [2, 3], [2, *range(5, 20), 3], [5]]
    types = [[0] * len(row) for row in ids]
    own = ours(loaded.learner.eval(), exported, ids, types)
    theirs = exported.run_all(ids, types)
    pairs = [(a, b) for name in own for a, b in zip(own[name], theirs[name], strict=True)]
    assert all(a.shape == b.shape for a, b in pairs)
    return max(float(np.abs(a - b).max()) for a, b in pairs)


def test_the_model_and_files_stay(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    model = write_model(tmp_path / "model")
    write_manifest(model)
    (tmp_path / "t.txt").write_text("mine")
    for out, message in ((model, "is what is read"), (tmp_path / "t.txt", "is no folder")):
        raises(ConfigError, message, export, model, out, "onnx", overwrite=True)
    verify_manifest(model)
    assert (tmp_path / "t.txt").read_text() == "mine"


def test_int8_is_near_and_says_how_near(written: Written) -> None:
    model, out, facts = written
    assert facts["largest_difference"] < 1e-4
    figures = facts["int8_on_text"]
    assert figures["texts"] == len(TEXTS)
    assert 0.9 < figures["cosine_texts"]["least"] <= figures["cosine_texts"]["mean"] <= 1
    assert json.loads((out / "export.json").read_text()) == facts
    exported = open_exported(out, threads=1)
    assert (exported.int8, exported.runtime, exported.head) == (True, "onnx", None)
    assert exported.outputs == {"last_hidden_state": True, "pooler_output": False}
    assert 0 < compare(model, exported) < 0.5
    assert exported.run_all([]) == {"last_hidden_state": [], "pooler_output": []}


def test_weights_whose_sums_would_be_cut_are_refused(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, facts = written
    assert facts["weight_bits"] == exported.weight_bits()
    wide = tmp_path / "wide"
    shutil.copytree(out, wide)
    (wide / "MANIFEST.json").unlink()
    (wide / "export.json").write_text(json.dumps({**facts, "weight_bits": 8}))
    write_manifest(wide)
    monkeypatch.setattr(exported, "weight_bits", lambda: 7)
    raises(ConfigError, "without VNNI", open_exported, wide)
    monkeypatch.setattr(exported, "weight_bits", lambda: 8)
    assert open_exported(wide).int8


@pytest.mark.parametrize(
    ("facts", "named"),
    [({"format": 9}, "format 9"), ({}, "format None"), ({"format": 1}, "runtime")],
)
def test_what_no_version_wrote(facts: dict[str, Any], named: str, tmp_path: Path) -> None:
    raises(DataError, named, exported.open_as, tmp_path, facts)


def test_the_folder_is_whole(written: Written, tmp_path: Path) -> None:
    _, out, _ = written
    names = {path.name for path in out.iterdir()}
    assert names == {
        "model.onnx", "config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json",
        "export.json", "MANIFEST.json",
    }  # fmt: skip
    assert verify_manifest(out)["files"].keys() == names - {"MANIFEST.json"}
    changed = tmp_path / "changed"
    shutil.copytree(out, changed)
    data = bytearray((changed / "model.onnx").read_bytes())
    data[-1] ^= 1
    (changed / "model.onnx").write_bytes(bytes(data))
    raises(IntegrityError, "was changed after it was written", open_exported, changed)
    raises(DataError, r"no export\.json", open_exported, tmp_path)


def test_any_batch_gives_the_same(written: Written) -> None:
    exported = open_exported(written[1], threads=1)
    ids = [[2, 7, 8, 3], [2, 3], [2, *range(5, 20), 3], [5], [6, 7]]
    alone, together = (exported.run_all(ids, batch_tokens=n)["pooler_output"] for n in (1, 9999))
    for a, b in zip(alone, together, strict=True):
        assert a.shape == (24,)
        # int8 takes one scale for all of a batch, so here neighbours do show
        np.testing.assert_allclose(a, b, atol=0.2)
    with pytest.raises(DataError, match=r"18 tokens.*1 to 17"):
        exported.run_all([[2, 3], [5] * 18])


def test_an_export_that_is_off_is_refused(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, out, _ = written

    int8 = out / "model.onnx"  # in place of float32
    monkeypatch.setattr(exporting, "write_onnx", lambda _, path: shutil.copyfile(int8, path))
    raises(BertwrightError, "export is off", export, model, tmp_path / "off", "onnx")
    assert not (tmp_path / "off").exists()
    monkeypatch.setattr(exporting, "check_random", lambda *_: 0.0)
    monkeypatch.setattr(graph_files, "quantize_for_onnx", lambda path: None)
    with pytest.raises(BertwrightError, match=r"int8.*mean cosine"):
        export(model, tmp_path / "off", "onnx", int8=True, sample=TEXTS, least=1.5)


SENTENCES = EmbeddingDefaults(
    "cls", True, 9, prompts={"query": "q: "}, default_prompt_name="query", dimensions=12
)


def test_how_vectors_are_made_goes_along(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, out, facts = written
    assert facts["pooling"] is None
    monkeypatch.setattr(exporting, "write_onnx", lambda _, to: shutil.copyfile(graph, to))
    monkeypatch.setattr(exporting, "check_random", lambda *_: 0.0)
    graph, sentences = out / "model.onnx", tmp_path / "sentences"
    shutil.copytree(model, sentences)
    write_defaults(sentences, SENTENCES, 24)
    told = export(sentences, tmp_path / "out", "onnx")
    assert (told["pooling"], embedding_of(tmp_path / "out")) == ("cls", SENTENCES)
    assert "1_Pooling/config.json" in verify_manifest(tmp_path / "out")["files"]
    export(sentences, tmp_path / "out", "onnx", layers=(-1,), overwrite=True)
    assert embedding_of(tmp_path / "out") is None


def test_int8_is_judged_by_its_worst_layer() -> None:
    learner, _, _ = learner_of("encoder")
    whole = stand_in(PaddedEncoder(learner, layers=(3, 1)).eval())

    def off(worth: float) -> Exported:
        def session(feed: Any) -> list[Any]:
            first, second = whole.session(feed)
            return [first, second * np.float32(worth)]

        return replace(whole, session=session)

    def check(exported: Exported) -> dict[str, Any]:
        return check_text(learner, exported, None, make_tokenizer(VOCABULARY), TEXTS, 0.9)

    assert check(whole)["cosine_texts"]["mean"] > 0.999
    for worth in (-1.0, np.nan):
        raises(BertwrightError, r"mean cosine of texts -1\.0000 on 4 texts", check, off(worth))


def test_a_runtime_that_cannot_write_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save_model(*_: object, **__: object) -> None:
        raise RuntimeError("iostream error")

    stand = SimpleNamespace(convert_model=lambda path: path, save_model=save_model)
    monkeypatch.setitem(sys.modules, "openvino", stand)
    with pytest.raises(BertwrightError, match=r"\d+ MB are free"):
        graph_files.finish_model(tmp_path / "model.onnx", "openvino", False)


def test_bad_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    model, out = write_model(tmp_path / "model"), tmp_path / "out"
    for options, message in (
        ({"head": "none"}, "has no head 'none'; it has masked_lm, next_sentence, "),
        ({"layers": (4,)}, r"no layer 4: this model has 0 \(the embeddings\) to 3"),
        ({"layers": (3, -1)}, "name one layer twice"),
        ({"head": "masked_lm", "layers": (1,)}, "layers are vectors; the head masked_lm has its"),
    ):
        raises(ConfigError, message, export, model, out, "onnx", **options)
    raises(DataError, "the sample has no text", export, model, out, "onnx", int8=True, sample=[" "])
    scores = write_model(tmp_path / "scores" / "model", "number")
    with pytest.raises(DataError, match="two texts or more"):
        export(scores, out, "onnx", int8=True, sample=["a"])
    writes = GenerationTask(max_length=12, stride=0, options=GenerationOptions(max_target_tokens=4))
    writer = small_bert.write_model(tmp_path / "writer", [], tasks={"writer": writes})
    raises(ConfigError, "writer", export, writer, out, "onnx")
    assert not out.exists()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r'pip install "bertwright\[export\]"'):
        export(model, out, "onnx")


@pytest.mark.parametrize("axis", [0, 1])
def test_a_weight_keeps_half_a_scale(axis: int) -> None:
    array = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    array[2] = 0
    small, scale = to_int8(array, axis)
    wide = scale[:, None] if axis == 0 else scale[None]
    assert small.dtype == np.int8
    assert len(scale) == array.shape[axis]
    assert (np.abs(small * wide - array) <= wide / 2 + 1e-7).all()
    assert np.abs(small).max() == 127


@pytest.mark.slow
@pytest.mark.parametrize("name", ["masked_lm", "ulmfit", "crf", "span-mix", "choice"])
def test_heads_in_a_runtime(name: str, tmp_path: Path) -> None:
    """Graphs of every shape; in torch `test_padded.py` runs those of all heads."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    model, out = write_model(tmp_path / "model", name), tmp_path / "out"
    facts = export(model, out, "onnx", head=name, int8=False)
    exported = open_exported(out, threads=1)
    assert compare(model, exported) < 1e-4
    assert (facts["crf"] is not None) == (name == "crf")


@pytest.mark.slow
@pytest.mark.parametrize(("runtime", "name"), [("onnx", "crf"), ("openvino", "classes")])
def test_int8_in_every_runtime(name: str, runtime: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip({"onnx": "onnxruntime"}.get(runtime, runtime))
    model, out = write_model(tmp_path / "model", name), tmp_path / "out"
    small = export(model, out, runtime, head=name, int8=True, sample=TEXTS, least=0.5)
    assert small["int8_on_text"]["texts"] == len(TEXTS)
    assert compare(model, open_exported(out)) < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "head"),
    [("roberta", "task"), ("mpnet", "encoder"), ("modernbert", "masked_lm")],
)
def test_the_family_in_a_runtime(system: str, head: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    sizes = {"num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 4}
    config = MODELS[system].config(vocab_size=41, intermediate_size=40, **sizes)
    tasks = {"task": ClassificationTask(labels=("a", "b"), max_length=16, stride=4)}
    tasks = tasks if head == "task" else {}
    learner = make_learner(config, [] if tasks else ["masked_lm"], tasks).eval()
    small_bert.scatter(learner, 0.2, 0.1)
    make_tokenizer(VOCABULARY).save(tmp_path / "tokenizer")
    (tmp_path / "model").mkdir()
    save(tmp_path / "model", learner, tmp_path / "tokenizer", "", tasks=tasks)
    export(tmp_path / "model", tmp_path / "out", "onnx", head=head)
    assert compare(tmp_path / "model", open_exported(tmp_path / "out", threads=1)) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnx", "openvino"])
def test_sentence_transformers_makes_our_vectors_of_it(runtime: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip(
        {"onnx": "optimum.onnxruntime", "openvino": "optimum.intel.openvino"}[runtime]
    )
    theirs = pytest.importorskip("sentence_transformers")
    model, out = write_model(tmp_path / "model"), tmp_path / "out"
    write_defaults(model, replace(SENTENCES, dimensions=None), 24)
    export(model, out, runtime)
    found = theirs.SentenceTransformer(str(out), backend=runtime, device="cpu").encode(TEXTS)
    own = load_model(model, device="cpu").embed(TEXTS)
    np.testing.assert_allclose(found, own, atol=1e-5)


@pytest.mark.slow
def test_openvino_by_layer(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("openvino")
    model, out = write_model(tmp_path / "model"), tmp_path / "out"
    export(model, out, "openvino", layers=(-2, 0))
    assert {path.name for path in out.iterdir()} >= {"openvino_model.xml", "openvino_model.bin"}
    assert not (out / "model.onnx").exists()
    exported = open_exported(out)
    assert list(exported.outputs) == ["hidden_states.2", "hidden_states.0"]
    assert compare(model, exported) < 1e-4
