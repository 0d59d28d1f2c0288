"""`bertwright predict`: a line an input, in order, whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import KINDS, Files, Finetuned, Ran


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def predict(ran: Ran) -> Ran:
    return lambda model, source, out, *words, **code: ran(
        *("predict", "--model", model, "--input", source, "--out", out),
        *(*words, "--precision", "fp32"),
        **code,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_labelled_files_give_the_predictions_of_the_run(
    finetuned: Finetuned, files: Files, tmp_path: Path, predict: Ran, kind: str
) -> None:
    model, out = finetuned(kind), tmp_path / "predictions.jsonl"
    printed = predict(model, files[kind][1], out)
    found = lines(out)
    before = lines(model / "dev-predictions.jsonl")
    assert len(found) == len(before) == 10
    for one, other in zip(found, before, strict=True):
        keys = {"line", "label", "tags", "answer", "choice", "value", "text"}
        inputs = {"text", "text2", "question", "context", "choices", "source"}
        assert one.keys() - {"id", *inputs} == other.keys() - {"task", "gold", *inputs}
        assert not inputs.isdisjoint(one) or kind == "tagging"  # has words
        for key in keys & other.keys():
            assert one[key] == pytest.approx(other[key], abs=1e-5)
    assert re.search("predicted.*10", printed.err)


@pytest.mark.parametrize(("kind", "suffix"), [("classification", "csv"), ("span", "tsv")])
def test_a_table_has_the_text_beside_the_prediction(
    finetuned: Finetuned, files: Files, tmp_path: Path, predict: Ran, kind: str, suffix: str
) -> None:
    model, out, source = finetuned(kind), tmp_path / f"out.{suffix}", files[kind][1]
    predict(model, source, out)
    predict(model, source, tmp_path / "out.jsonl")
    expected = lines(tmp_path / "out.jsonl")
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="," if suffix == "csv" else "\t"))
    assert len(rows) == len(expected) == 10
    for row, line in zip(rows, expected, strict=True):
        for name in {"text", "question", "context", "label", "answer", "line"} & line.keys():
            assert row[name] == str(line[name])
        for label, score in line.get("scores", {}).items():
            assert float(row[f"scores.{label}"]) == score
        for name in {"n_best"} & line.keys():
            assert json.loads(row[name]) == line[name]
    assert ".csv" in predict(model, source, tmp_path / "out.xlsx", code=2).err


INPUTS = {
    "classification": "a b c\n\nb c\n",
    "regression": "a b\nc\n",
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


def test_bad_input_and_bad_rows(finetuned: Finetuned, tmp_path: Path, predict: Ran) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "new" / "out.jsonl"
    source.write_text('{"text": "x"}\n{"text\n{"text": "y"}\n')
    model = finetuned("classification")
    output = predict(model, source, out, code=4)
    assert "line 2" in output.err
    assert output.out == ""
    assert not out.parent.exists() or list(out.parent.iterdir()) == []
    assert "1 left out" in predict(model, source, out, "--bad-rows", "skip").err
    assert [each["line"] for each in lines(out)] == [1, 3]


def test_json_tells_what_was_met(finetuned: Finetuned, tmp_path: Path, predict: Ran) -> None:
    (tmp_path / "in.txt").write_text("a b c d " * 30 + "\n\nb\n")
    model, out = finetuned("classification"), tmp_path / "out.jsonl"
    printed = predict(model, tmp_path / "in.txt", out, "--json")
    report = json.loads(printed.out)
    assert (report["examples"], report["in_windows"], report["cut"]) == (2, 1, 0)
    assert report["skipped"] == {"empty line": {"count": 1, "lines": [2]}}
    assert (report["out"], report["task"]) == (str(out), "task")
    assert re.search("longer than a window.*: 1", printed.err)
    assert "--out" in predict(model, tmp_path / "in.txt", "-", "--json", code=2).err


def test_what_it_refuses(tiny: Path, finetuned: Finetuned, tmp_path: Path, predict: Ran) -> None:
    (tmp_path / "in.txt").write_text("x\n")
    out = tmp_path / "out.jsonl"
    assert "bertwright finetune KIND" in predict(tiny, tmp_path / "in.txt", out, code=4).err
    model = finetuned("classification")
    assert "none.txt" in predict(tmp_path / "no-model", tmp_path / "none.txt", out, code=4).err
    printed = predict(model, tmp_path / "in.txt", out, "--task", "other", code=2)
    assert "'other'" in printed.err
    predict(model, tmp_path / "in.txt", tmp_path, code=2)
    assert not out.exists()
    out.write_text("mine")
    predict(model, tmp_path / "in.txt", out, code=2)
    assert out.read_text() == "mine"
    predict(model, tmp_path / "in.txt", out, "--overwrite")
    assert len(lines(out)) == 1


@pytest.mark.slow
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
    assert not new.exists()


def test_blank_lines_are_left_out_and_counted(
    finetuned: Finetuned, tmp_path: Path, ran: Ran
) -> None:
    path, out = tmp_path / "texts.txt", tmp_path / "p.jsonl"
    path.write_text("a b c\n\n   \nd e\n")
    said = ran("predict", "--model", finetuned("classification"), "--input", path, "--out", out)
    lines = [json.loads(line)["line"] for line in out.read_text().splitlines()]
    assert lines == [1, 4]
    assert "2 left out, empty line" in said.err


def test_texts_on_the_command_line(ran, finetuned):
    given = {
        "classification": ("a b c", "d"),
        "regression": ("a b c", "d"),
        "tagging": ("a b c", "d, e"),
        "span": ("a b\td e a c",),
        "multiple-choice": ("a b\tc\td e",),
    }
    for kind, texts in given.items():
        printed = ran("predict", "--model", finetuned(kind), *texts)
        lines = [json.loads(line) for line in printed.out.splitlines()]
        assert [line["line"] for line in lines] == [*range(1, len(texts) + 1)]
    model = finetuned("span")
    assert "question and a passage" in ran("predict", "--model", model, "no tab", code=4).err
    ran("predict", "--model", model, code=2)
    ran("predict", "--model", model, "a\tb", "--input", "x.txt", code=2)
