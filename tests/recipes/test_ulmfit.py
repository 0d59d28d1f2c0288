"""ULMFiT's three steps on a tiny corpus, by the commands of docs/systems/ulmfit.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bertwright
from bertwright.checkpoint.opened import open_model
from bertwright.cli.app import run as run_verb
from tests.small_runs import WORDS, build_data, newest, records


def verb(*words: object) -> None:
    assert run_verb([str(word) for word in words]) == 0


@pytest.mark.slow
def test_the_three_steps(tmp_path: Path) -> None:
    shards, lm, tuned, task = build_data(tmp_path), *(tmp_path / name for name in "abc")
    half = len(WORDS) // 2
    rows = [(" ".join(WORDS[k : k + 6]), ("low", "high")[k >= half]) for k in range(70)]
    table = tmp_path / "task.tsv"
    table.write_text("\n".join("\t".join(row) for row in [("text", "label"), *rows]) + "\n")
    (tmp_path / "texts.txt").write_text("\n\n".join(text for text, _ in rows) + "\n")
    small = ("--device", "cpu", "--precision", "fp32", "--sequence-length", 32)
    sizes = ("--architecture.embedding-size", 16, "--architecture.hidden-size", 24)
    verb("pretrain", "--model", "awd-lstm-mini", "--data", shards, "--out", lm, "--steps", 60,
         *small, *sizes, "--batch.tokens", 256, "--optimizer.learning-rate", 0.02)  # fmt: skip
    verb("data", "build", tmp_path / "texts.txt", "--tokenizer", tmp_path / "tokenizer",
         "--out", tmp_path / "own")  # fmt: skip
    verb("pretrain", "--init", lm, "--data", tmp_path / "own", "--out", tuned, "--epochs", 3,
         *small, "--batch.tokens", 128, "--schedule.curve", "slanted", "--schedule.warmup", 0.1,
         "--optimizer.layer-decay", 1 / 2.6, "--optimizer.learning-rate", 0.01,
         "--architecture.dropout-scale", 0.3)  # fmt: skip
    before, after = (
        [each["loss"] for each in records(run) if each["split"] == "dev"] for run in (lm, tuned)
    )
    assert before
    assert after
    assert open_model(newest(tuned)).config.dropout_scale == 0.3
    verb("finetune", "classification", "--model", tuned, "--train", table, "--dev", table,
         "--out", task, "--transfer", "gradual", "--epochs", 12, "--learning-rate", 0.05,
         "--pooling", "last+max+mean", "--hidden-size", 9, "--dropout-scale", 0,
         "--batch-size", 16, "--device", "cpu", "--precision", "fp32")  # fmt: skip
    head = json.loads((newest(task) / "task.json").read_text())["tasks"]["task"]["head"]
    assert (head["pooling"], head["hidden_size"]) == ("last+max+mean", 9)
    results = json.loads((task / "results.json").read_text())
    assert results["metrics"]["accuracy"] > 0.75
    model = bertwright.load(task)
    right = sum(p.label == label for p, (_, label) in zip(
        model.predict([text for text, _ in rows]), rows, strict=True))  # fmt: skip
    assert right / len(rows) == results["metrics"]["accuracy"]
