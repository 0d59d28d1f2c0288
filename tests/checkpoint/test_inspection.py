"""What a folder is, sound and unsound, without its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertwright.atomic import write_manifest
from bertwright.checkpoint.checkpoint import make_learner, save
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.formats import tensorflow
from bertwright.checkpoint.inspection import inspect
from bertwright.checkpoint.opened import OtherVocabulary, open_model
from bertwright.errors import DataError, IntegrityError
from bertwright.nn.objective import Learner
from bertwright.storage import model_folder
from bertwright.tasks.tagging.options import TaggingTask
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.checkpoint.conftest import CONFIG, VOCABULARY, change, refused


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a tensor is an error."""
    monkeypatch.delattr(model_folder, "read_tensors")
    monkeypatch.delattr(tensorflow, "read_tensor")


@pytest.mark.usefixtures("no_weights")
def test_a_checkpoint(folder: Path, learner: Learner) -> None:
    write_manifest(folder)
    found = inspect(folder)
    assert (found.format, found.loads, found.reason) == ("huggingface", True, None)
    assert found.architecture == "BertForPreTraining"
    assert found.sizes["hidden_size"] == 24
    assert list(found.parts) == ["encoder", "pooler", "masked_lm", "next_sentence"]
    assert found.parts["pooler"] == {"tensors": 2, "parameters": 24 * 24 + 24}
    assert found.parts["encoder"]["tensors"] == 5 + 3 * 16
    assert found.manifest == "whole"
    assert found.tokenizer["tokens"] == len(VOCABULARY)
    assert found.tokenizer["lowercase"] is True
    assert found.odd == ["the model has 37 tokens, 2 more than the tokenizer; they are never used"]
    assert json.loads(json.dumps(found.as_dict()))["parameters"] == found.parameters
    assert found.parameters == sum(p.numel() for p in learner.parameters())


def test_an_export_is_told_and_not_loaded(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "export.json").write_text('{"runtime": "onnx"}')
    found = inspect(folder)
    assert (found.format, found.loads) == ("onnx", False)
    refused(folder, DataError, "exported model")


def test_tasks(tmp_path: Path) -> None:
    tasks = {"names": TaggingTask(labels=("O", "B-X"), max_length=12, stride=2)}
    save(tmp_path, make_learner(CONFIG, [], tasks), None, "", tasks=tasks)
    found = inspect(tmp_path)
    assert found.architecture == "BertForTokenClassification"
    assert found.tasks["names"]["labels"] == ["O", "B-X"]
    assert found.parts["names"] == {"tensors": 2, "parameters": 24 * 2 + 2}
    assert "no pooler: what needs one initializes it" in found.odd
    assert [odd for odd in found.odd if odd.startswith("no tokenizer to use")]


def test_tensorflow_and_sentence_transformers(folder: Path, tmp_path: Path) -> None:
    convert(folder, tmp_path / "tf", "tensorflow")
    convert(folder, tmp_path / "st", "sentence-transformers")
    assert inspect(tmp_path / "tf").format == "tensorflow"
    assert inspect(tmp_path / "tf").parameters == inspect(folder).parameters
    found = inspect(tmp_path / "st")
    assert found.format == "sentence-transformers"
    assert found.embedding is not None
    assert found.embedding["pooling"] == "mean"
    (tmp_path / "st" / "modules.json").write_text("[]")
    found = inspect(tmp_path / "st")
    assert not found.loads
    assert "expected a list of parts" in str(found.reason)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"intermediate_size": 41}, "has the shape [40, 24]"),
        ({"vocab_size": 10**12}, "vocab_size is 1000000000000"),
    ],
)
def test_what_does_not_load(folder: Path, values: dict[str, Any], reason: str) -> None:
    change(folder / "config.json", **values)
    found = inspect(folder)
    assert not found.loads
    assert reason in str(found.reason)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    change(folder / "config.json", vocab_size=37)
    assert "is truncated or damaged" in str(inspect(folder).reason)


def test_a_tokenizer_that_does_not_fit(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    extra = "".join(f"word{n}\n" for n in range(9))
    (folder / "vocab.txt").write_text((folder / "vocab.txt").read_text() + extra)
    found = inspect(folder)
    assert not found.loads
    assert found.reason == "the tokenizer has 44 tokens; the model has 37: " + (
        "they do not belong together"
    )
    with pytest.raises(IntegrityError, match=r"44 tokens.*37"):
        _ = open_model(folder).tokenizer


def test_a_smaller_tokenizer_of_another_model(folder: Path) -> None:
    _ = open_model(folder).tokenizer  # of fewer tokens than the model has vectors, but its own
    make_tokenizer(["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]", *"abc"]).save(folder)
    with pytest.warns(OtherVocabulary, match=r"has \[PAD\] as 4, .*'pad_token_id' .* is 0"):
        _ = open_model(folder).tokenizer
    assert any("it seems to be of another model" in odd for odd in inspect(folder).odd)


def test_odd_things(folder: Path) -> None:
    write_manifest(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
    tensors["classifier.weight"] = torch.ones(3, 24)
    save_file(tensors, folder / "model.safetensors")
    torch.save({}, folder / "optimizer.pt")
    found = inspect(folder)
    assert found.unused == ("classifier.weight",)
    assert "tensors that are not used: 'classifier.weight'" in found.odd
    assert "the decoder is written out again, although it is tied" in found.odd
    assert "pickles, which are not opened: optimizer.pt" in found.odd
    assert "were written" in found.manifest
    assert not found.loads
    assert "it was truncated or changed" in str(found.reason)


def test_a_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    found = inspect(folder)
    assert found.format == "pickle"
    assert "bertwright convert" in str(found.reason)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"config.json nor checkpoints"):
        inspect(tmp_path)


def test_files_of_words(tmp_path: Path) -> None:
    path = tmp_path / "v.bin"
    path.write_bytes(b"1 2\n<unk> " + bytes(8) + b"\n")
    found = inspect(path)
    assert (found.format, found.loads) == ("word vectors", True)
    assert found.sizes == {"words": 1, "width": 2, "unknown words": "<unk>"}
    path.write_bytes(b"2 2\n<unk> " + bytes(8) + b"\n")
    assert "truncated" in str(inspect(path).reason)
    ngrams = tmp_path / "m.arpa"
    ngrams.write_text("\\data\\\nngram 1=1\n\n\\1-grams:\n-0.5\ta\n\n\\end\\\n")
    found = inspect(ngrams)
    assert (found.format, found.sizes["order"]) == ("arpa", 1)
    assert "bertwright convert" in str(found.reason)
