"""`bertwright data build` and `bertwright data check` as a user meets them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from bertwright.atomic import write_manifest
from bertwright.cli.app import run
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.cli.conftest import JsonOf, Ran
from tests.raising import assert_names
from tests.small_runs import build_pairs

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    make_tokenizer([*SPECIAL, *"abcdefghij."]).save(tmp_path / "tokenizer")
    text = "".join(
        f"{a} {b} {c} {a} {b} {c} {a} {b} {c} .\n" + "\n" * (c == "j")
        for a in "abcdefghij"
        for b in "abcdefghij"
        for c in "abcdefghij"
    )
    (tmp_path / "corpus.txt").write_text(text)
    return tmp_path


@pytest.fixture
def build(ran: Ran) -> Ran:
    return lambda corpus, *more, tokenizer="tokenizer", out="out", **code: ran(
        *("data", "build", corpus / "corpus.txt", "--tokenizer", corpus / tokenizer),
        *("--out", corpus / out, "--workers", "1", *more),
        **code,
    )


def test_build_and_check(corpus: Path, build: Ran, ran: Ran) -> None:
    said = build(corpus).out
    assert_names(said, "100 documents", "1,000 sentences", "10,000 tokens")
    assert f"bertwright data check {corpus / 'out'}" in said
    said = ran("data", "check", corpus / "out", "--instances.sequence-length", "64").out
    assert re.search(r"warning +size: .*10,000 tokens", said)
    assert "0 errors, " in said
    assert f"bertwright pretrain --model bert-mini --data {corpus / 'out'}" in said


def test_json_is_one_object(corpus: Path, build: Ran, json_of: JsonOf) -> None:
    assert json.loads(build(corpus, "--json").out)["counts"]["tokens"] == 10_000
    found = json_of("data", "check", corpus / "out")
    assert found["errors"] == 0
    assert {"level", "name", "value", "message", "advice"} == found["findings"][0].keys()


def test_errors_end_with_4(corpus: Path, ran: Ran, build: Ran) -> None:
    build(corpus, "--documents", "line", "--sentences", "line")
    said = ran("data", "check", corpus / "out", code=4).out
    assert "error    next_sentence_ratio" in said
    assert "bertwright pretrain" not in said
    ran("data", "check", corpus / "out", "--instances.objectives", "mlm")


def test_the_model_is_named_or_found_by_the_data(tmp_path: Path, ran: Ran) -> None:
    (tmp_path / "unmasked").mkdir()
    make_tokenizer(["[UNK]", *"abcdefghij."]).save(tmp_path / "unmasked" / "tokenizer")
    (tmp_path / "unmasked" / "a.txt").write_text("a b c .\nd e f .\n\n" * 200)
    words = ["--tokenizer", tmp_path / "unmasked" / "tokenizer", "--workers", "1", "--out"]
    text, pairs = str(tmp_path / "unmasked" / "shards"), str(build_pairs(tmp_path))
    ran("data", "build", tmp_path / "unmasked" / "a.txt", *words, text)
    for more, code, said in (
        ([text], 0, "pretrain --model gpt-mini"),
        ([text, "--model", "awd-lstm-small", "--sequence-length", "8"], 0, " 8-8 100.0%"),
        ([text, "--model", "word2vec-cbow"], 0, "--epochs 5"),
        ([text, "--model", "bert-mini"], 4, "error    instances: "),
        ([pairs], 0, "ok       left_out: 0.0% of the pairs"),
        ([pairs, "--sequence-length", "8"], 0, "warning  left_out: "),
        ([pairs, "--instances.objectives", "mlm"], 2, "transformer-small"),
        ([text, "--sequence-length", "9999"], 2, "512 positions"),
    ):
        found = ran("data", "check", *more, code=code)
        assert said in (found.err if code == 2 else found.out)


def test_exit_codes_of_bad_input(corpus: Path, build: Ran) -> None:
    assert run(["data", "check", str(corpus)]) == 4
    build(corpus)
    assert "exists already" in build(corpus, code=2).err
    build(corpus, "--overwrite", "--documentz", "line", code=2)
    (corpus / "out" / "shard-00000.tokens").write_bytes(b"cut")
    assert run(["data", "check", str(corpus / "out")]) == 5
    (corpus / "corpus.txt").write_text("\n\n")
    build(corpus, "--overwrite", code=4)
    assert (corpus / "out").is_dir()


def test_what_is_read_is_not_replaced(corpus: Path, build: Ran) -> None:
    for out in ("", "tokenizer"):
        assert "choose another --out" in build(corpus, "--overwrite", out=out, code=2).err
    assert (corpus / "corpus.txt").is_file()
    assert (corpus / "tokenizer" / "vocab.txt").is_file()


def test_a_tokenizer_by_its_run(corpus: Path, build: Ran) -> None:
    checkpoint = corpus / "run" / "checkpoints" / "step-00000001"
    shutil.copytree(corpus / "tokenizer", checkpoint)
    (checkpoint / "config.json").write_text("{}")
    write_manifest(checkpoint)
    for name in ("run", "run/checkpoints/latest"):
        build(corpus, "--overwrite", tokenizer=name)
        assert run(["tokenizer", "inspect", "a b", "--tokenizer", str(corpus / name)]) == 0


def test_what_was_cut_is_said(corpus: Path, build: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertwright.text.corpus.read.MAX_SENTENCE_CHARACTERS", 10)
    (corpus / "corpus.txt").write_bytes(b"a b c a b c a b c\xff .\n" * 3)
    said = build(corpus).out
    assert_names(said, "0.1 kB", "splits of sentences", "3 malformed UTF-8")
    assert f"{corpus / 'corpus.txt'}, byte" in said
