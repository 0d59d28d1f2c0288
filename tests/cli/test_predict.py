"""`bertwright predict`: a line an input, in order, whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertwright.inference.model import load
from bertwright.recipes import predict as predicting
from tests.cli.conftest import Ran
from tests.cli.labelled import FILES

Finetuned = Callable[[str], Path]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def predict(ran: Ran) -> Ran:
    return lambda model, source, out, *words, **code: ran(
        *("predict", "--model", model, "--input", source, "--out", out),
        *(*words, "--precision", "fp32"),
        **code,
    )


@pytest.mark.parametrize("kind", FILES)
def test_labelled_files_give_the_predictions_of_the_run(
    finetuned: Finetuned, files: Path, tmp_path: Path, predict: Ran, kind: str
) -> None:
    model, out = finetuned(kind), tmp_path / "predictions.jsonl"
    printed = predict(model, f"{files / kind}/dev{FILES[kind][0]}", out)
    found = lines(out)
    before = lines(model / "dev-predictions.jsonl")
    assert len(found) == len(before) == 10
    for one, other in zip(found, before, strict=True):
        keys = ("line", "label", "tags", "answer", "choice", "value")
        assert one.keys() - {"id"} == other.keys() - {"task", "gold"}
        for key in keys:
            assert one.get(key) == pytest.approx(other.get(key), abs=1e-5)
    assert "inputs predicted: 10" in printed.err


INPUTS = {
    "classification": "the film was good\n\nthe plot was bad\n",
    "regression": "the film\ta film\nthe plot\ta cast\n",
    "tagging": "the film, ann saw.\nbob\n",
    "span": '{"question": "who ?", "context": "eve saw a film"}\n' * 2,
    "multiple-choice": '{"text": "the film", "choices": ["was good", "was bad"]}\n' * 2,
}


@pytest.mark.parametrize("kind", INPUTS)
def test_unlabelled_inputs(finetuned: Finetuned, tmp_path: Path, predict: Ran, kind: str) -> None:
    model = finetuned(kind)
    (tmp_path / "in.txt").write_text(INPUTS[kind])
    out = tmp_path / "new" / "out.jsonl"
    predict(model, tmp_path / "in.txt", out)
    found = lines(out)
    assert len(found) == 2
    printed = predict(model, "-", "-", stdin=INPUTS[kind].encode()).out
    assert [json.loads(line) for line in printed.splitlines()] == found
    first = found[0]
    if kind == "classification":
        assert [each["line"] for each in found] == [1, 3]
        assert first["scores"][first["label"]] == max(first["scores"].values())
    if kind == "tagging":
        text = "the film, ann saw."
        assert first["words"] == ["the", "film", ",", "ann", "saw", "."]
        assert [text[a:b] for a, b in first["offsets"]] == first["words"]
        assert all(text[e["start"] : e["end"]] == e["text"] for e in first["entities"])
    if kind == "span":
        assert "eve saw a film"[first["start"] : first["end"]] == first["answer"]


def test_parts_change_nothing(
    finetuned: Finetuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, predict: Ran
) -> None:
    model = finetuned("classification")
    texts = [f"the {'film ' * (n % 7)}was {'good' if n % 2 else 'bad'}" for n in range(50)]
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
    predict(model, tmp_path / "in.txt", tmp_path / "whole.jsonl")
    monkeypatch.setattr(predicting, "AT_ONCE", 7)
    predict(model, tmp_path / "in.txt", tmp_path / "parts.jsonl")
    whole, parts = lines(tmp_path / "whole.jsonl"), lines(tmp_path / "parts.jsonl")
    assert [each["line"] for each in parts] == list(range(1, 51))
    for one, other in zip(whole, parts, strict=True):
        assert one["scores"] == pytest.approx(other["scores"], abs=1e-6)
    said = load(model).predict(texts)
    for one, prediction in zip(whole, said, strict=True):
        assert one["scores"] == pytest.approx(prediction.as_dict()["scores"], abs=1e-6)


def test_progress_counts_the_inputs(finetuned: Finetuned, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the film was good\n" * 30)
    model = load(finetuned("classification"))
    told: list[tuple[int, int | None]] = []
    report = predicting.predict_file(
        model,
        str(tmp_path / "in.txt"),
        lambda line: None,
        precision="fp32",
        on_progress=lambda done, total: told.append((done, total)),
    )
    assert report.examples == 30
    assert told[-1] == (30, 30)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_what_is_long_is_told(finetuned: Finetuned, tmp_path: Path, predict: Ran) -> None:
    (tmp_path / "in.txt").write_text("the film was good " * 30 + "\nbad\n")
    printed = predict(finetuned("classification"), tmp_path / "in.txt", tmp_path / "out.jsonl")
    assert "inputs longer than a window, read in several: 1" in printed.err


BAD = {
    "unreadable row": ("text\tlabel\nx\ty\nx\ty\tz\n", ".tsv", "line 3"),
    "missing column": ("a,b\n1,2\n", ".csv", "--text"),
    "empty": ("\n\n", ".txt", "is empty"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(finetuned: Finetuned, tmp_path: Path, predict: Ran, case: str) -> None:
    text, suffix, message = BAD[case]
    source = tmp_path / f"in{suffix}"
    source.write_text(text)
    model = finetuned("classification")
    output = predict(model, source, tmp_path / "new" / "out.jsonl", code=4)
    assert message in output.err
    assert output.out == ""
    new = tmp_path / "new"
    assert not new.exists() or list(new.iterdir()) == []


def test_bad_rows_skipped(finetuned: Finetuned, tmp_path: Path, predict: Ran) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "x"}\n{"text\n{"text": "y"}\n')
    model, out = finetuned("classification"), tmp_path / "out.jsonl"
    printed = predict(model, tmp_path / "in.jsonl", out, "--bad-rows", "skip")
    assert [each["line"] for each in lines(out)] == [1, 3]
    assert "1 left out" in printed.err


def test_json_tells_what_was_met(finetuned: Finetuned, tmp_path: Path, predict: Ran) -> None:
    (tmp_path / "in.txt").write_text("the film was good " * 30 + "\n\nbad\n")
    model, out = finetuned("classification"), tmp_path / "out.jsonl"
    report = json.loads(predict(model, tmp_path / "in.txt", out, "--json").out)
    assert (report["examples"], report["in_windows"], report["cut"]) == (2, 1, 0)
    assert report["skipped"] == {"empty line": {"count": 1, "lines": [2]}}
    assert (report["out"], report["task"]) == (str(out), "task")
    assert "give --out a file" in predict(model, tmp_path / "in.txt", "-", "--json", code=2).err


def test_what_it_refuses(tiny: Path, finetuned: Finetuned, tmp_path: Path, predict: Ran) -> None:
    (tmp_path / "in.txt").write_text("x\n")
    out = tmp_path / "out.jsonl"
    assert "bertwright finetune KIND" in predict(tiny, tmp_path / "in.txt", out, code=4).err
    model = finetuned("classification")
    assert "none.txt" in predict(tmp_path / "no-model", tmp_path / "none.txt", out, code=4).err
    printed = predict(model, tmp_path / "in.txt", out, "--task", "other", code=2)
    assert "has no task 'other'" in printed.err
    predict(model, tmp_path / "in.txt", tmp_path, code=2)
    assert not out.exists()
    out.write_text("mine")
    predict(model, tmp_path / "in.txt", out, code=2)
    assert out.read_text() == "mine"
    predict(model, tmp_path / "in.txt", out, "--overwrite")
    assert len(lines(out)) == 1


def test_ctrl_c_leaves_nothing(finetuned: Finetuned, tmp_path: Path) -> None:
    model = finetuned("classification")
    new = tmp_path / "new"
    read, write = os.pipe()
    words = ["predict", "--model", str(model), "--input", "-", "--out", str(new / "out.jsonl")]
    process = subprocess.Popen(
        [sys.executable, "-m", "bertwright", *words, "--precision", "fp32"],
        stdin=read,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(read)
    try:
        with os.fdopen(write, "w") as pipe:
            pipe.write("the film was good\n" * 3000)
            pipe.flush()
            deadline = time.monotonic() + 60
            while not (new.is_dir() and list(new.iterdir())):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            error = process.communicate(timeout=600)[1]
    finally:
        process.kill()
    assert process.returncode == 130, error
    assert "interrupted" in error
    assert list(new.iterdir()) == []
