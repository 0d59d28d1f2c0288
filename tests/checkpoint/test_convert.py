"""Between formats: the same numbers there and back, and nothing half-written."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertwright.atomic import verify_manifest, write_manifest
from bertwright.checkpoint import convert as file
from bertwright.checkpoint.checkpoint import load, save
from bertwright.checkpoint.convert import convert
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.text.tokenizer.tokenizer import BertRules, load_tokenizer, make_tokenizer
from tests.checkpoint.conftest import (
    CONFIG,
    VOCABULARY,
    assert_same,
    change,
    new_learner,
    rewrite,
)
from tests.checkpoint.task_heads import TASKS, saved
from tests.storage.hostile import Hostile


def same(a: Path, b: Path) -> None:
    assert_same(load(a).learner, load(b).learner)


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_there_and_back(folder: Path, tmp_path: Path) -> None:
    done = convert(folder, tmp_path / "tf", "tensorflow")
    assert (done.source_format, done.to) == ("huggingface", "tensorflow")
    assert done.parts == ("encoder", "pooler", "masked_lm", "next_sentence")
    assert done.shapes["bert/encoder/layer_0/intermediate/dense/kernel"] == (24, 40)
    assert done.missing == done.unused == done.left == ()
    assert entries(tmp_path / "tf") == [
        "MANIFEST.json",
        "README.md",
        "bert_config.json",
        "bert_model.ckpt.data-00000-of-00001",
        "bert_model.ckpt.index",
        "checkpoint",
        "vocab.txt",
    ]
    verify_manifest(tmp_path / "tf")
    same(folder, tmp_path / "tf")
    back = convert(tmp_path / "tf", tmp_path / "hf")
    assert back.source_format == "tensorflow"
    assert back.parameters == done.parameters
    assert set(back.matched) == set(done.shapes)
    assert back.shapes["bert.encoder.layer.0.intermediate.dense.weight"] == (40, 24)
    same(folder, tmp_path / "hf")
    assert load(tmp_path / "hf").config == CONFIG
    for name in ("model.safetensors", "vocab.txt"):
        assert (tmp_path / "hf" / name).read_bytes() == (folder / name).read_bytes()
    assert load_tokenizer(tmp_path / "hf").fingerprint == load_tokenizer(folder).fingerprint


def test_a_part_that_is_not_there_is_not_invented(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    save(tmp_path / "a", new_learner(("masked_lm",)), None, "")
    tensors = load_file(tmp_path / "a" / "model.safetensors")
    kept = {n: v for n, v in tensors.items() if ".pooler." not in n}
    rewrite(tmp_path / "a", kept)
    for to in ("huggingface", "tensorflow", "sentence-transformers"):
        done = convert(tmp_path / "a", tmp_path / to, to)  # type: ignore[arg-type]
        assert "pooler" not in done.parts
        assert not [name for name in done.shapes if "pooler" in name]
        assert done.notes[0] == "no tokenizer in the source, so none beside the model"
    assert load_file(tmp_path / "huggingface" / "model.safetensors").keys() == kept.keys()


def test_activations(folder: Path, tmp_path: Path) -> None:
    change(folder / "config.json", hidden_act="gelu_new")
    convert(folder, tmp_path / "tf", "tensorflow")
    written = json.loads((tmp_path / "tf" / "bert_config.json").read_text())
    assert written["hidden_act"] == "gelu"  # the only one that google-research/bert has
    assert load(tmp_path / "tf").config.hidden_act == "gelu_tanh"
    del written["bertwright_hidden_act"]
    (tmp_path / "tf" / "bert_config.json").write_text(json.dumps(written))
    (tmp_path / "tf" / "MANIFEST.json").unlink()
    convert(tmp_path / "tf", tmp_path / "a")
    assert load(tmp_path / "a").config.hidden_act == "gelu"


@pytest.mark.parametrize("name", ["classes", "number", "answers"])
def test_task_heads(tmp_path: Path, name: str) -> None:
    saved(tmp_path / "a", {name: TASKS[name]})
    done = convert(tmp_path / "a", tmp_path / "tf", "tensorflow")
    head = "cls/squad/output_weights" if name == "answers" else "output_weights"
    assert head in done.shapes
    assert done.parts[-1] == name
    convert(tmp_path / "tf", tmp_path / "b")
    assert load(tmp_path / "b").tasks == {name: TASKS[name]}
    same(tmp_path / "a", tmp_path / "b")
    bare = convert(tmp_path / "a", tmp_path / "st", "sentence-transformers")
    assert f"not carried over: {name}" in bare.notes


def test_heads_that_tensorflow_has_not(tmp_path: Path) -> None:
    saved(tmp_path / "a", {"tags": TASKS["tags"]})
    with pytest.raises(ConfigError, match="text classification and for spans"):
        convert(tmp_path / "a", tmp_path / "tf", "tensorflow")
    assert entries(tmp_path) == ["a"]


def test_tokenizers(folder: Path, tmp_path: Path) -> None:
    make_tokenizer(VOCABULARY, BertRules(lowercase=False)).save(folder)
    done = convert(folder, tmp_path / "tf", "tensorflow")
    assert "google-research/bert is to be run with --do_lower_case=False" in done.notes
    assert [note for note in done.notes if "alone does not tell how" in note]
    make_tokenizer([*VOCABULARY, *(f"word{n}" for n in range(9))]).save(folder)
    with pytest.raises(IntegrityError, match=r"44 tokens.*37"):
        convert(folder, tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("left", ["vocab.txt", "tokenizer.json"])
def test_transformers_cuts_words_as_a_silent_tokenizer_is_read_here(
    folder: Path, tmp_path: Path, left: str
) -> None:
    capitals = [*VOCABULARY[:-1], "B"]
    make_tokenizer(capitals, BertRules(lowercase=False)).save(folder)
    for name in {"vocab.txt", "tokenizer.json", "tokenizer_config.json"} - {left}:
        (folder / name).unlink()
    (folder / "MANIFEST.json").unlink(missing_ok=True)
    convert(folder, tmp_path / "hf")
    told = json.loads((tmp_path / "hf" / "tokenizer_config.json").read_text())
    assert told["do_lower_case"] is False
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert theirs("a B b")["input_ids"] == load_tokenizer(folder).encode("a B b").ids


def test_a_silent_tokenizer_of_other_rules_stays_as_it_is(folder: Path, tmp_path: Path) -> None:
    described = json.loads((folder / "tokenizer.json").read_text())
    described["normalizer"] = {"type": "NFC"}
    (folder / "tokenizer.json").write_text(json.dumps(described))
    (folder / "tokenizer_config.json").unlink()
    convert(folder, tmp_path / "hf")
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert theirs("a B b")["input_ids"] == load_tokenizer(folder).encode("a B b").ids


def test_what_stands_there_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        convert(folder, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"holds mine.txt, .* choose another DST"):
        convert(folder, tmp_path / "out", overwrite=True)
    (tmp_path / "out" / "mine.txt").unlink()
    convert(folder, tmp_path / "out")
    convert(folder, tmp_path / "out", "tensorflow", overwrite=True)
    assert not (tmp_path / "out" / "config.json").exists()
    with pytest.raises(ConfigError, match=r"'caffe'.*huggingface"):
        convert(folder, tmp_path / "x", "caffe")  # type: ignore[arg-type]


def test_a_source_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    step = run / "checkpoints" / "step-1"
    step.parent.mkdir(parents=True)
    folder.rename(step)
    write_manifest(step)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for out in (run, step, tmp_path):
        with pytest.raises(ConfigError, match="choose another DST"):
            convert(run, out, overwrite=True)
    with pytest.raises(ConfigError, match=r"holds step-1, which no manifest"):
        convert(run, step.parent, overwrite=True)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_write_that_went_wrong_is_found(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = file.model_folder.write_weights

    def other(place: Path, tensors: dict[str, torch.Tensor]) -> None:
        write(place, {name: value + 1 for name, value in tensors.items()})

    monkeypatch.setattr(file.model_folder, "write_weights", other)
    with pytest.raises(IntegrityError, match=r"encoder\.embeddings\.token\.weight"):
        convert(folder, tmp_path / "out")
    assert entries(tmp_path) == ["model", "tokenizer"]


@pytest.fixture
def pickled(folder: Path) -> Path:
    """The same model as transformers wrote them once."""
    tensors = OrderedDict(load_file(folder / "model.safetensors"))
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    return folder


def test_a_pickle(pickled: Path, tmp_path: Path) -> None:
    done = convert(pickled, tmp_path / "out")
    expected = torch.load(pickled / "pytorch_model.bin", weights_only=True)
    written = load_file(tmp_path / "out" / "model.safetensors")
    assert written.keys() == expected.keys()
    assert all(torch.equal(written[name], expected[name]) for name in expected)
    assert done.source == str(pickled)
    assert entries(tmp_path) == ["model", "out", "tokenizer"]
    tensors = torch.load(pickled / "pytorch_model.bin", weights_only=True)
    del tensors["bert.pooler.dense.bias"]
    torch.save(tensors, pickled / "pytorch_model.bin")
    with pytest.raises(IntegrityError, match=f"{pickled} lacks 'bert.pooler.dense.bias'"):
        convert(pickled, tmp_path / "x")
    assert entries(tmp_path) == ["model", "out", "tokenizer"]


@pytest.mark.parametrize("name", ["weights.pt", "model.bin", "model.pkl", "pytorch_model.pt"])
def test_a_pickle_of_another_name(pickled: Path, tmp_path: Path, name: str) -> None:
    torch.save({"a": Hostile(tmp_path / "ran")}, pickled / name)
    (pickled / "pytorch_model.bin").unlink()
    for source in (pickled, pickled / name):
        with pytest.raises(DataError, match=r"pickle.*pytorch_model\.bin"):
            convert(source, tmp_path / "out")
    assert entries(tmp_path) == ["model", "tokenizer"]


def test_a_pickle_under_the_name_of_weights(pickled: Path, tmp_path: Path) -> None:
    torch.save({"a": Hostile(tmp_path / "ran")}, pickled / "model.safetensors")
    for work in (lambda: load(pickled), lambda: convert(pickled, tmp_path / "out")):
        with pytest.raises(DataError, match=r"model\.safetensors is a pickle"):
            work()
    assert entries(tmp_path) == ["model", "tokenizer"]


def test_what_is_not_all_of_the_weights(pickled: Path, tmp_path: Path) -> None:
    path = pickled / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(IntegrityError, match=r"pytorch_model\.bin"):
        convert(pickled, tmp_path / "out")
    path.rename(pickled / "pytorch_model-00001-of-00002.bin")
    with pytest.raises(IntegrityError, match=r"1 shards of pytorch_model\.bin"):
        convert(pickled, tmp_path / "out")


def test_no_bert_beside_a_pickle(pickled: Path, tmp_path: Path) -> None:
    change(pickled / "config.json", model_type="t5")
    with pytest.raises(DataError, match="'model_type'"):
        convert(pickled, tmp_path / "out")
