"""Heads leave out of means the tokens that a model was never trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bertwright
from bertwright.checkpoint.convert import convert
from bertwright.cli.app import run as run_verb
from bertwright.models.gpt.config import GptConfig
from bertwright.models.word_vectors.config import Word2VecConfig
from bertwright.models.word_vectors.files import NamedVectors, write_binary
from tests.inference.vectors.sample import LSTM, WORDS, write

GPT = GptConfig(
    vocab_size=9,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    max_position_embeddings=40,
)


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
        (GPT, {}, [0, 1]),
        (GPT, {"head_start": "random"}, [0, 0]),  # reads the last token, and trains it
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
