"""`bertwright convert` and `inspect`: output, exit codes and messages."""

from __future__ import annotations

from pathlib import Path

from bertwright.checkpoint.checkpoint import load
from tests.cli.conftest import JsonOf, Ran
from tests.raising import assert_names


def test_convert(tiny: Path, tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    out = tmp_path / "tf"
    found = json_of("convert", tiny, out, "--to", "tensorflow")
    assert found["to"] == "tensorflow"
    assert found["missing"] == ["cls.seq_relationship.weight", "cls.seq_relationship.bias"]
    assert found["parameters"] == sum(p.numel() for p in load(tiny).learner.parameters())
    shown = ran("convert", out / "bert_model.ckpt", tmp_path / "hf")
    line = next(line for line in shown.out.splitlines() if ".self.query.weight" in line)
    assert line.split()[0] == "bert.encoder.layer.*.attention.self.query.weight"
    assert line.split()[1:] == ["2", "16", "x", "16"]
    assert "cls/seq_relationship/output_weights" in shown.out
    ran("fill", "--model", tmp_path / "hf", "a [MASK]")
    ran("fill", "--model", out, "a [MASK]")


def test_sentence_transformers(tiny: Path, tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    words = ["convert", tiny, tmp_path / "st", "--to", "sentence-transformers"]
    printed = ran(*words, "--pooling", "cls", "--normalize", "--max-length", "8")
    assert "masked_lm" in printed.err
    found = json_of("inspect", tmp_path / "st")
    expected = {"pooling": "cls", "normalize": True, "max_length": 8, "layers": [-1]}
    assert found["embedding"].items() > expected.items()
    printed = ran("convert", tiny, tmp_path / "x", "--pooling", "cls", code=2)
    assert_names(printed.err, "--pooling", "--to sentence-transformers")


def test_refusals(tiny: Path, tmp_path: Path, ran: Ran) -> None:
    assert "exists already" in ran("convert", tiny, tiny.parent / "model-tokenizer", code=2).err
    assert "no folder" in ran("convert", tmp_path / "none", tmp_path / "x", code=4).err
    ran("convert", tiny, tmp_path / "x", "--to", "caffe", code=2)
    (tmp_path / "words.txt").write_text("a 1 2\nb 3 4\n")
    average = ("--average", "3")
    printed = ran("convert", tmp_path / "words.txt", tmp_path / "x", *average, code=2)
    assert_names(printed.err, "--average", "checkpoints")
    assert not (tmp_path / "x").exists()


def test_inspect(tiny: Path, tmp_path: Path, ran: Ran) -> None:
    shown = ran("inspect", tiny).out
    for words in ("huggingface", "BertForMaskedLM", "tokens read at once", "pooler", "WordPiece"):
        assert words in shown
    assert "config.json" in ran("inspect", tmp_path, code=4).err


def test_inspect_of_what_does_not_load(tiny: Path, tmp_path: Path, ran: Ran) -> None:
    for name in ("config.json", "vocab.txt"):
        (tmp_path / name).write_bytes((tiny / name).read_bytes())
    assert "no: " in ran("inspect", tmp_path).out
