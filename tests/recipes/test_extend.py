"""`tokenizer extend`, then data and pre-training with what it wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.atomic import verify_manifest, write_manifest
from bertwright.checkpoint.checkpoint import load
from bertwright.checkpoint.sentence_transformers.folder import (
    EmbeddingDefaults,
    write_defaults,
)
from bertwright.cli.app import run
from bertwright.errors import ConfigError, DataError
from bertwright.inference.model import load as load_model
from bertwright.recipes.extend import extend
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from tests.checkpoint.conftest import embedding_of
from tests.small_bert import CONFIG, LETTERS, VOCABULARY, write_model

WORDS = ("iterator", "decorator", "keyword", "the", "function", "yields")


def write_corpus(folder: Path, documents: int = 60) -> Path:
    folder.mkdir()
    lines = []
    for number in range(documents):
        for line in range(3):
            a, b, c = (
                WORDS[(number * 5 + line * 7 + place * 2) % len(WORDS)] for place in range(3)
            )
            lines.append(f"The {a} of a {b} is the {c}, and so on.")
        lines.append("")
    (folder / "docs.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Random weights over an alphabet that is closed, `##` and all."""
    closed = [*VOCABULARY, *(f"##{letter}" for letter in LETTERS)]
    config = replace(CONFIG, vocab_size=len(closed) + 3, max_position_embeddings=32, hidden_size=16)
    heads = ("masked_lm", "next_sentence")
    return write_model(tmp_path / "model", heads, config, vocabulary=closed)


@pytest.mark.slow
def test_extend_then_pretrain(model: Path, tmp_path: Path, capsys: Any) -> None:
    corpus, out = write_corpus(tmp_path / "corpus"), tmp_path / "extended"
    words = ["tokenizer", "extend", str(corpus), "--model", str(model), "--out", str(out)]
    assert run([*words, "--add", "6", "--workers", "1", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["words_added"] == 6
    text = (corpus / "docs.txt").read_text().split("\n")
    before, after = (load_tokenizer(each).encode_sentence_ids(text)[0] for each in (model, out))
    assert (figures["tokens_before"], figures["tokens_after"]) == (len(before), len(after))
    assert len(after) < 0.7 * len(before)
    assert {"iterator", "decorator"} <= set(figures["first"])
    verify_manifest(out)

    old, new = load_tokenizer(model), load_tokenizer(out)
    assert {t: i for t, i in new.vocab.items() if i < old.vocab_size} == old.vocab
    assert (out / "vocab.txt").read_text().split("\n")[new.vocab["iterator"]] == "iterator"
    assert load(out).config.vocab_size == max(new.vocab_size, load(model).config.vocab_size)
    text = "it is so"  # of old tokens alone: the same vectors
    before, after = load_model(model).embed([text]), load_model(out).embed([text])
    torch.testing.assert_close(torch.tensor(before), torch.tensor(after))

    shards = str(tmp_path / "shards")
    build = ["data", "build", str(corpus), "--tokenizer", str(out), "--out", shards]
    assert run([*build, "--workers", "1"]) == 0
    train = ["pretrain", "--init", str(out), "--data", shards, "--out", str(tmp_path / "run")]
    size = ["--instances.sequence-length", "32", "--batch.tokens", "256"]
    assert run([*train, "--steps", "2", *size]) == 0, capsys.readouterr().err
    assert load(tmp_path / "run").config.vocab_size == load(out).config.vocab_size
    assert run([*words, "--add", "6"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_transformers_loads_it(model: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    found = extend(model, [str(write_corpus(tmp_path / "c"))], tmp_path / "out", add=6, workers=1)
    theirs = transformers.AutoModelForPreTraining.from_pretrained(found.folder)
    cut = transformers.AutoTokenizer.from_pretrained(found.folder)
    text = "The decorator yields an iterator."
    ours = load_tokenizer(found.folder).encode(text)
    assert cut(text)["input_ids"] == ours.ids
    assert "decorator" in ours.tokens
    with torch.no_grad():
        logits = theirs(**cut(text, return_tensors="pt")).prediction_logits[0]
    model_of_ours = load_model(found.folder, device="cpu")
    learner = model_of_ours.runner.learner
    (_, encoded), *_ = model_of_ours.runner.run([ours.ids])
    torch.testing.assert_close(learner.objectives["masked_lm"].logits(encoded.last), logits)


def test_nothing_to_add_and_bad_values(model: Path, tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("a b c.\n\nd e f.\n")
    few = [str(tmp_path / "few.txt")]
    with pytest.raises(DataError, match="nothing to add"):
        extend(model, few, tmp_path / "out", workers=1)
    with pytest.raises(ConfigError, match="add is 0"):
        extend(model, few, tmp_path / "out", add=0)
    with pytest.raises(ConfigError, match="workers is -1"):
        extend(model, few, tmp_path / "out", workers=-1)
    (tmp_path / "few.txt").write_text("The iterator. " * 9)
    found = extend(model, few, tmp_path / "out", workers=1)
    assert [a.token for a in found.additions] == ["iterator"]


def test_what_is_read_is_never_replaced(model: Path, tmp_path: Path) -> None:
    corpus = [str(write_corpus(tmp_path / "c"))]
    step = tmp_path / "run" / "checkpoints" / "step-00000001"
    step.parent.mkdir(parents=True)
    model.rename(step)
    write_manifest(step)
    weights = (step / "model.safetensors").read_bytes()
    for out in (step, tmp_path / "run", tmp_path / "c"):
        with pytest.raises(ConfigError, match="would take its place"):
            extend(tmp_path / "run", corpus, out, overwrite=True, workers=1)
    assert (step / "model.safetensors").read_bytes() == weights


def test_a_folder_of_sentence_transformers_stays_one(model: Path, tmp_path: Path) -> None:
    defaults = EmbeddingDefaults("cls", True, 9)
    write_defaults(model, defaults, 16)
    out = extend(model, [str(write_corpus(tmp_path / "c"))], tmp_path / "out", add=6, workers=1)
    assert embedding_of(out.folder) == defaults
    verify_manifest(out.folder)
    texts = ["it is so"]  # of old tokens alone
    before, after = (load_model(each).embed(texts) for each in (model, out.folder))
    torch.testing.assert_close(torch.tensor(before), torch.tensor(after))
