"""Word vectors that a source keeps, and features of them beside the encoder's (CoVe)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.cli.app import run
from bertwright.errors import ConfigError, DataError
from bertwright.inference.model import load
from bertwright.models.catalogue import make_run
from bertwright.models.seq2seq.config import Seq2SeqRun
from tests.small_runs import WORDS, build_pairs, mapping_of, train

KNOWN = WORDS[::2]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shards = build_pairs(tmp_path_factory.mktemp("pairs"))
    lines = [f"{word} {n}.5 -1 {n / 8}" for n, word in enumerate(KNOWN)]
    (shards.parent / "words.vec").write_text("\n".join([f"{len(KNOWN)} 3", *lines]) + "\n")
    (shards.parent / "other.vec").write_text("1 3\nzebra 1 2 3\n")
    return shards


def config(data: Path, out: Path, vectors: str = "words.vec", width: int = 3) -> Seq2SeqRun:
    given: dict[str, Any] = mapping_of(data, out, instances=None, model="seq2seq-cove", steps=8)
    given["architecture"] = {"embedding_size": width, "hidden_size": 8, "num_hidden_layers": 1}
    given |= {"sequence_length": 32, "word_vectors": str(data.parent / vectors)}
    return make_run(Seq2SeqRun, {k: v for k, v in given.items() if v is not None})


@pytest.fixture(scope="module")
def trained(data: Path) -> Path:
    out = data.parent / "run"
    train(config(data, out))
    return out


def test_the_source_keeps_its_word_vectors(data: Path, trained: Path) -> None:
    model = load(trained)
    encoder = model.runner.encoder
    ids = model.tokenizer.encode_bare_ids([" ".join(WORDS[:4])])[0]
    found = encoder.token_embedding()
    assert found is not None
    expected = torch.tensor([[0.5, -1, 0], [0, 0, 0], [1.5, -1, 0.125], [0, 0, 0]])
    assert torch.equal(found.weight[ids], expected)
    target = model.runner.learner.objectives["translation"].decoder.table
    assert target is not found
    assert len(model.translate([WORDS[0], WORDS[5]])) == 2


def test_features_are_both_side_by_side(trained: Path, tmp_path: Path) -> None:
    rows = [f"{WORDS[n % 9]} {WORDS[n]}\t{'ab'[n % 9 > 4]}" for n in range(60)]
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    out = tmp_path / "out"
    words = ["--transfer", "features", "--layers", "embeddings+last"]
    words += ["--network", "bilstm", "--epochs", "1"]
    task = ["classification", "--model", str(trained), "--train", str(tmp_path / "train.tsv")]
    assert run(["finetune", *task, "--out", str(out), *words]) == 0
    model = load(out)
    head = model.runner.learner.objectives["task"]
    assert head.layers == (0, 1)
    assert head.network.lstm.input_size == 3 + 8
    assert len(model.predict([WORDS[0]])) == 1
    assert "accuracy" in json.dumps(json.loads((out / "results.json").read_text()))


def test_what_does_not_fit(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="embedding-size 3"):
        train(config(data, tmp_path / "a", width=4))
    with pytest.raises(DataError, match="vocabulary"):
        train(config(data, tmp_path / "b", "other.vec"))
