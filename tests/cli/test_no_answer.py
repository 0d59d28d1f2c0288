"""Questions without an answer, to models that say of them more or less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertwright.tasks.span.options import SpanTask
from bertwright.tasks.texts.options import ClassificationTask
from tests.cli.conftest import Ran
from tests.small_bert import CONFIG, write_model

Captured = pytest.CaptureFixture[str]
CONTEXT = "a b c d e f g"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One span model as transformers saves it, without `task.json`, and with ours."""
    folder = tmp_path_factory.mktemp("models")
    task = SpanTask(max_length=12, stride=4)
    for name in ("ours", "theirs"):
        write_model(folder / name, [], CONFIG, tasks={"span": task}, std=0.3)
    (folder / "theirs" / "task.json").unlink()
    return {name: folder / name for name in ("ours", "theirs")}


@pytest.fixture(scope="module")
def squad2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten questions, six of which have no answer."""
    rows: list[dict[str, Any]] = []
    for number in range(10):
        there = [{"text": "c d", "answer_start": 4}] if number < 4 else []
        question = {"id": f"q{number}", "question": f"{'abcdefghij'[number]} ?"}
        rows.append({**question, "answers": there, "is_impossible": not there})
    data = [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": rows}]}]
    path = tmp_path_factory.mktemp("data") / "dev.json"
    path.write_text(json.dumps({"version": "v2.0", "data": data}))
    return path


def evaluated(model: Path, data: Path, ran: Ran, *words: str) -> tuple[dict[str, Any], str]:
    output = ran("evaluate", "--model", model, "--data", data, "--json", *words)
    found: dict[str, Any] = json.loads(output.out)
    return found, output.err


def test_the_threshold_decides(models: dict[str, Path], squad2: Path, ran: Captured) -> None:
    for model in models.values():
        never, _ = evaluated(model, squad2, ran, "--null-threshold=-inf")
        assert never["metrics"]["exact_match"] == 0.6
        assert never["metrics"]["no_answer_exact_match"] == 1.0
        always, _ = evaluated(model, squad2, ran, "--null-threshold", "inf")
        assert always["metrics"]["no_answer_exact_match"] == 0.0


def test_unset_it_follows_model_and_data(
    models: dict[str, Path], squad2: Path, tmp_path: Path, ran: Captured
) -> None:
    at_zero, warned = evaluated(models["theirs"], squad2, ran, "--null-threshold", "0")
    assert "no answer" not in warned
    unset, warned = evaluated(models["theirs"], squad2, ran)
    assert unset["metrics"] == at_zero["metrics"]
    assert "--null-threshold 0" in warned
    ours, warned = evaluated(models["ours"], squad2, ran)
    assert ours["metrics"]["no_answer_exact_match"] == 0.0
    assert "not trained on" in warned

    answered = json.loads(squad2.read_text().replace('"is_impossible": true', '"x": true'))
    answered["data"][0]["paragraphs"][0]["qas"] = answered["data"][0]["paragraphs"][0]["qas"][:4]
    (tmp_path / "answered.json").write_text(json.dumps(answered))
    found, warned = evaluated(models["theirs"], tmp_path / "answered.json", ran)
    assert "no_answer_exact_match" not in found["metrics"]
    assert "null-threshold" not in warned


def test_predict_takes_the_same_threshold(
    models: dict[str, Path], squad2: Path, ran: Captured
) -> None:
    def answers(*words: str) -> list[str]:
        start = ["predict", "--model", models["theirs"], "--input", squad2]
        printed = ran(*start, "--out", "-", *words).out
        return [json.loads(line)["answer"] for line in printed.splitlines()]

    assert all(answers("--null-threshold", "inf"))
    assert not any(answers("--null-threshold=-inf"))
    assert answers() == answers("--null-threshold", "0")


def test_only_of_spans(models: dict[str, Path], tmp_path: Path, ran: Ran) -> None:
    task = ClassificationTask(labels=("x", "y"), max_length=12, stride=4)
    model = write_model(tmp_path / "texts", [], CONFIG, tasks={"texts": task})
    (tmp_path / "a.tsv").write_text("text\tlabel\na\tx\nb\ty\n")
    words = ["evaluate", "--model", model, "--data", tmp_path / "a.tsv"]
    assert "of a classification task" in ran(*words, "--null-threshold", "0", code=2).err
