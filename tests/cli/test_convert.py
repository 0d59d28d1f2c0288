"""`bertwright convert` and `inspect`: output, exit codes and messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertwright.checkpoint.checkpoint import load
from bertwright.config.bert import BertConfig
from tests.cli.conftest import JsonOf, Ran
from tests.small_bert import write_model

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij."]
CONFIG = BertConfig(16, 12, 2, 3, 20, max_position_embeddings=9)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work") / "model"
    return write_model(folder, ["masked_lm"], CONFIG, vocabulary=VOCABULARY, std=0.3, noise=0.0)


def test_convert(model: Path, tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    out = tmp_path / "tf"
    found = json_of("convert", model, out, "--to", "tensorflow")
    assert found["to"] == "tensorflow"
    assert found["missing"] == ["cls.seq_relationship.weight", "cls.seq_relationship.bias"]
    assert found["parameters"] == sum(p.numel() for p in load(model).learner.parameters())
    shown = ran("convert", out / "bert_model.ckpt", tmp_path / "hf")
    line = next(line for line in shown.out.splitlines() if ".self.query.weight" in line)
    assert line.split() == [
        "bert.encoder.layer.*.attention.self.query.weight",
        "2",
        "12",
        "x",
        "12",
    ]
    assert "cls/seq_relationship/output_weights" in shown.out
    ran("fill", "--model", tmp_path / "hf", "a [MASK]")
    ran("fill", "--model", out, "a [MASK]")


def test_sentence_transformers(model: Path, tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    words = ["convert", model, tmp_path / "st", "--to", "sentence-transformers"]
    printed = ran(*words, "--pooling", "cls", "--normalize", "--max-length", "8")
    assert "not carried over: masked_lm" in printed.err
    found = json_of("inspect", tmp_path / "st")
    expected = {"pooling": "cls", "normalize": True, "max_length": 8, "layers": [-1]}
    assert found["embedding"].items() > expected.items()
    printed = ran("convert", model, tmp_path / "x", "--pooling", "cls", code=2)
    assert "--pooling is for --to sentence-transformers" in printed.err


def test_refusals(model: Path, tmp_path: Path, ran: Ran) -> None:
    assert "exists already" in ran("convert", model, model.parent / "model-tokenizer", code=2).err
    assert "no folder" in ran("convert", tmp_path / "none", tmp_path / "x", code=4).err
    ran("convert", model, tmp_path / "x", "--to", "caffe", code=2)
    assert not (tmp_path / "x").exists()


def test_inspect(model: Path, tmp_path: Path, ran: Ran) -> None:
    shown = ran("inspect", model).out
    for words in ("huggingface", "BertForMaskedLM", "hidden size", "pooler", "WordPiece"):
        assert words in shown
    assert "holds neither config.json" in ran("inspect", tmp_path, code=4).err


def test_inspect_of_what_does_not_load(model: Path, tmp_path: Path, ran: Ran) -> None:
    for name in ("config.json", "vocab.txt"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    assert "no: " in ran("inspect", tmp_path).out
