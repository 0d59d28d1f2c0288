"""Means over the tokens of a text: of no token that a model was never trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertwright
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.convert import convert
from bertwright.cli.app import run as run_verb
from bertwright.models.awd_lstm.config import AwdLstmConfig
from bertwright.models.elmo.config import ElmoConfig
from bertwright.models.gpt.config import GptConfig
from bertwright.models.nnlm.config import NnlmConfig
from bertwright.models.word_vectors.config import GloveConfig, Word2VecConfig
from bertwright.models.word_vectors.files import NamedVectors, write_binary
from bertwright.text.tokenizer.tokenizer import make_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cat", "dog", "sat"]
ELMO = ElmoConfig(
    vocab_size=9, character_size=4, filters=((1, 4), (2, 5)), dim=7, projection_dim=3, n_layers=2
)
LSTM = AwdLstmConfig(vocab_size=9, embedding_size=6, hidden_size=7, num_hidden_layers=2)

GPT = GptConfig(
    vocab_size=9,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    max_position_embeddings=40,
)


def write(folder: Path, config: object) -> Path:
    """A folder of random weights with a tokenizer of BERT's special tokens."""
    folder.mkdir()
    make_tokenizer([*SPECIAL, *WORDS]).save(folder)
    learner = checkpoint.make_learner(config, [])
    learner.encoder.reset_parameters(torch.Generator().manual_seed(1))
    if isinstance(config, ElmoConfig):
        learner.encoder.set_tokens([*SPECIAL, *WORDS], (2, 3))  # type: ignore[operator]
    checkpoint.save(folder, learner, None, "")
    return folder


@pytest.mark.parametrize("config", [Word2VecConfig(9, 5), GloveConfig(9, 5), NnlmConfig(9, 5)])
def test_a_static_vector_is_the_mean_of_its_words(tmp_path: Path, config: object) -> None:
    model = bertwright.load(write(tmp_path / "model", config))
    table = model.runner.encoder.token_embedding()
    assert table is not None
    rows = table.weight.detach().numpy()
    vectors = model.embed(["cat", "the dog sat", "unseen", ""])
    np.testing.assert_array_equal(vectors[0], rows[6])
    np.testing.assert_allclose(vectors[1], rows[[5, 7, 8]].mean(0), rtol=1e-5)
    # [UNK] is left out of the text of word2vec and GloVe
    unknown = 1 if isinstance(config, NnlmConfig) else 0
    np.testing.assert_array_equal(vectors[2:], [unknown * rows[1], 0 * rows[1]])
    if not unknown:
        np.testing.assert_array_equal(model.embed(["unseen cat"], pooling="max")[0], rows[6])
        pooled = model.embed(["x y z w the x y z"], max_length=4, pooling="mean-max")[0]
        np.testing.assert_allclose(pooled, [*rows[5], *rows[5]], rtol=1e-6)
    np.testing.assert_array_equal(model.embed(["the dog"], pooling="max")[0], rows[[5, 7]].max(0))
    in_windows = model.embed(["the dog sat the cat"], max_length=4)[0]
    np.testing.assert_allclose(in_windows, rows[[5, 7, 8, 5, 6]].mean(0), rtol=1e-5)
    weighted = model.embed(["the dog sat the cat"], max_length=4, pooling="weighted")[0]
    expected = np.average(rows[[5, 7, 8, 5, 6]], 0, weights=[1, 2, 3, 4, 5])
    np.testing.assert_allclose(weighted, expected, rtol=1e-5)


@pytest.mark.parametrize(("config", "begin"), [(ELMO, 1), (LSTM, 0)])
def test_a_mean_leaves_out_what_was_never_trained(
    tmp_path: Path, config: object, begin: int
) -> None:
    model = bertwright.load(write(tmp_path / "model", config))
    text = "the cat sat"
    embedder = model.embedder(model.vectors.over(pooling="none"))
    (tokens,) = embedder.embed_tokens([text])
    assert tokens.tokens == ["[CLS]", "the", "cat", "sat", "[SEP]"]
    expected = tokens.vectors[begin:-1].mean(0)
    np.testing.assert_allclose(model.embed([text, "dog"])[0], expected, rtol=1e-5, atol=1e-7)


def test_fine_tuning_averages_words_and_says_how_many_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "train.jsonl"
    rows = [{"text": text, "label": "ab"[n % 2]} for n, text in enumerate(["cat", "a dog"] * 6)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_binary(tmp_path / "v.bin", NamedVectors(WORDS, np.eye(4, 5, dtype=np.float32)))
    convert(tmp_path / "v.bin", tmp_path / "file")
    write(tmp_path / "trained", Word2VecConfig(9, 5))
    for name, frame in (("file", [0, 0]), ("trained", [1, 1])):
        out = tmp_path / f"{name}-task"
        command = ["finetune", "classification", "--model", str(tmp_path / name), "--out", str(out)]
        command += ["--train", str(data), "--dev", str(data), "--epochs", "1", "--seeds", "1"]
        assert run_verb([*command, "--json"]) == 0
        assert "train: 12 of 18 words have a vector" in capsys.readouterr().err
        results = json.loads((out / "results.json").read_text())
        assert results["task"]["head"]["frame"] == frame
        assert {"words": 18, "unknown": 6}.items() <= results["data"]["train"].items()
        task = bertwright.load(out)
        assert len(task.predict(["cat", "\u200b"])) == 2


@pytest.mark.parametrize(
    ("config", "options", "frame"),
    [
        (LSTM, {"pooling": "mean"}, [0, 1]),
        (LSTM, {"pooling": "last+max+mean", "transfer": "gradual"}, [0, 1]),
        (GPT, {"pooling": "mean"}, [0, 1]),
        (GPT, {}, [0, 0]),  # reads the last token, and trains it
    ],
)
def test_heads_trained_in_steps_leave_out_the_tokens_that_embed_leaves_out(
    tmp_path: Path, config: object, options: dict[str, Any], frame: list[int]
) -> None:
    rows = [(text, "ab"[n % 2]) for n, text in enumerate(["the cat", "dog sat"] * 6)]
    more = {"transfer": "finetune", "epochs": 1, "learning_rate": 1e-3, "seeds": 1} | options
    run = bertwright.finetune(
        "classification",
        model=write(tmp_path / "model", config),
        train=rows,
        dev=rows,
        out=tmp_path / "task",
        progress=False,
        **more,
    )
    results = json.loads((run.folder / "results.json").read_text())
    assert results["task"]["head"]["frame"] == frame
