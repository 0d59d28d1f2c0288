"""`bertwright fill`, `next-sentence` and `embed`: output, exit codes and messages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from bertwright.checkpoint.checkpoint import make_learner, save
from bertwright.inference.model import load
from bertwright.models.bert.config import BertConfig
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.cli.conftest import JsonOf, Ran
from tests.raising import assert_names
from tests.small_bert import write_model

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij."]
CONFIG = BertConfig(16, 12, 2, 3, 20, max_position_embeddings=9)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("work") / "model"
    model = write_model(
        folder, ["masked_lm", "next_sentence"], CONFIG, vocabulary=VOCABULARY, std=0.3, noise=0.0
    )
    return str(model)


def test_fill(model: str, ran: Ran, json_of: JsonOf) -> None:
    found = json_of("fill", "--model", model, "a [MASK] c [MASK]", "--top", "3")
    expected = load(model).fill("a [MASK] c [MASK]", top=3)
    assert [
        [(t["token"], t["probability"]) for t in blank] for blank in found["blanks"]
    ] == expected
    shown = ran("fill", "--model", model, "a [MASK] c [MASK]", "--top", "3").out
    assert "blank" in shown
    assert f"{expected[0][0][1]:.1%}" in shown
    assert "blank" not in ran("fill", "--model", model, "a [MASK]").out


def test_fill_without_a_blank(model: str, ran: Ran) -> None:
    output = ran("fill", "--model", model, "a b", code=4)
    assert "[MASK]" in output.err
    assert output.out == ""


def test_a_text_that_begins_with_a_dash(model: str, ran: Ran) -> None:
    for text in ("- [MASK]", "-5 [MASK]", "--a [MASK]"):
        printed = ran("fill", "--model", model, text, code=2)
        assert_names(printed.err, "begins with a dash", "--")
        ran("fill", "--model", model, "--", text)
    assert "a dash" not in ran("fill", "--model", model, "a [MASK]", "--topp", "3", code=2).err
    assert "TEXT" in ran("fill", "--model", model, code=2).err


def test_a_model_that_diverged(tmp_path: Path, ran: Ran) -> None:
    make_tokenizer(VOCABULARY).save(tmp_path)
    learner = make_learner(CONFIG, ["masked_lm", "next_sentence"])
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter.fill_(1e30)
    (tmp_path / "model").mkdir()
    save(tmp_path / "model", learner, tmp_path, "")
    for words in (["fill", "a [MASK]"], ["next-sentence", "a", "b"]):
        output = ran(*words, "--model", tmp_path / "model", "--json", code=4)
        assert "not finite" in output.err
        assert output.out == ""


def test_next_sentence(model: str, ran: Ran, json_of: JsonOf) -> None:
    expected = load(model).next_sentence("a", "b.")
    assert f"{expected:.4f}" in ran("next-sentence", "--model", model, "a", "b.").out
    found = json_of("next-sentence", "--model", model, "a", "b.")
    assert found["probability"] == pytest.approx(expected)
    assert found["tokens_cut"] == 0


def test_next_sentence_says_what_was_cut(model: str, ran: Ran) -> None:
    output = ran("next-sentence", "--model", model, "a b c d e", "f g h i j", "--json")
    assert "4 tokens" in output.err
    assert json.loads(output.out)["tokens_cut"] == 4


def test_embed(model: str, tmp_path: Path, ran: Ran) -> None:
    texts = ["a b", "", "c d e f g h i j a b c d e", "j"]
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
    out = tmp_path / "new" / "v.npy"
    words = ["embed", "--model", model, "--input", tmp_path / "in.txt", "--out", out]
    output = ran(*words)
    assert "4 vectors of 12 numbers" in output.out
    assert "1 text" in output.err
    assert "read as [CLS] [SEP]" in output.err
    np.testing.assert_allclose(np.load(out), load(model).embed(texts), atol=1e-6)
    assert {path.name for path in out.parent.iterdir()} == {"v.npy", "v.npy.key.json"}
    assert "exists already" in ran(*words, code=2).err


def test_embed_from_standard_input(model: str, tmp_path: Path, json_of: JsonOf) -> None:
    words = ["embed", "--model", model, "--input", "-", "--out", out := tmp_path / "v.npy"]
    assert json_of(*words, stdin=b"a\r\nb \xff\n")["invalid_utf8"] == 1
    np.testing.assert_allclose(np.load(out), load(model).embed(["a", "b \ufffd"]), atol=1e-6)
