"""`bertwright convert` and `inspect`: output, exit codes and messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertwright.checkpoint.checkpoint import load
from bertwright.cli.app import run
from bertwright.config.bert import BertConfig
from tests.small_bert import write_model

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij."]
CONFIG = BertConfig(16, 12, 2, 3, 20, max_position_embeddings=9)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work") / "model"
    return write_model(folder, ["masked_lm"], CONFIG, vocabulary=VOCABULARY, std=0.3, noise=0.0)


def test_convert(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tf"
    assert run(["convert", str(model), str(out), "--to", "tensorflow", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["to"] == "tensorflow"
    assert found["missing"] == ["cls.seq_relationship.weight", "cls.seq_relationship.bias"]
    assert found["parameters"] == sum(p.numel() for p in load(model).learner.parameters())
    assert run(["convert", str(out / "bert_model.ckpt"), str(tmp_path / "hf")]) == 0
    shown = capsys.readouterr()
    line = next(line for line in shown.out.splitlines() if ".self.query.weight" in line)
    assert line.split() == [
        "bert.encoder.layer.*.attention.self.query.weight",
        "2",
        "12",
        "x",
        "12",
    ]
    assert "cls/seq_relationship/output_weights" in shown.out
    assert run(["fill", "--model", str(tmp_path / "hf"), "a [MASK]"]) == 0
    assert run(["fill", "--model", str(out), "a [MASK]"]) == 0


def test_sentence_transformers(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["convert", str(model), str(tmp_path / "st"), "--to", "sentence-transformers"]
    assert run([*words, "--pooling", "cls", "--normalize", "--max-length", "8"]) == 0
    assert "not carried over: masked_lm" in capsys.readouterr().err
    assert run(["inspect", str(tmp_path / "st"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = {"pooling": "cls", "normalize": True, "max_length": 8, "layers": [-1]}
    assert found["embedding"].items() > expected.items()
    assert run(["convert", str(model), str(tmp_path / "x"), "--pooling", "cls"]) == 2
    assert "--pooling is for --to sentence-transformers" in capsys.readouterr().err


def test_refusals(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["convert", str(model), str(model.parent / "model-tokenizer")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert run(["convert", str(tmp_path / "none"), str(tmp_path / "x")]) == 4
    assert "no folder" in capsys.readouterr().err
    assert run(["convert", str(model), str(tmp_path / "x"), "--to", "caffe"]) == 2
    assert not (tmp_path / "x").exists()


def test_inspect(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(model)]) == 0
    shown = capsys.readouterr().out
    for words in ("huggingface", "BertForMaskedLM", "hidden size", "pooler", "WordPiece"):
        assert words in shown
    assert run(["inspect", str(tmp_path)]) == 4
    assert "holds neither config.json" in capsys.readouterr().err


def test_inspect_of_what_does_not_load(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("config.json", "vocab.txt"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    assert run(["inspect", str(tmp_path)]) == 0
    assert "no: " in capsys.readouterr().out
