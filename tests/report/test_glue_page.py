"""The page of a GLUE run, and those of its tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertwright.cli.app import run
from tests.report.finetuned_runs import classification, write_finetuned
from tests.report.test_pretrained_page import HOSTILE, parse


def write_glue(folder: Path) -> Path:
    """A run of two tasks; of one the folder has gone."""
    value = {"mean": 0.7, "sd": 0.02, "max": 0.73}
    task: dict[str, Any] = {"metrics": {"f1": value, "accuracy": value}, "score": value}
    task |= {"seeds": 3, "train": 3668, "dev": 408, "baselines": {"majority": {"f1": 0.81}}}
    task |= {"more": {"accuracy, dev_mismatched.tsv": 0.61}, "warnings": [f"<b>{HOSTILE}"]}
    whole = {"model": HOSTILE, "average": 0.7, "average_without_wnli": 0.7, "settings": {}}
    write_finetuned(folder / "MRPC", classification())
    (folder / "glue.json").write_text(json.dumps(whole | {"tasks": {"MRPC": task, "RTE": task}}))
    return folder


def test_a_table_of_tasks_with_their_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_glue(tmp_path / "glue")
    assert run(["report", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    page = (folder / "report.html").read_text(encoding="utf-8")
    tags = parse(page).seen
    assert [attrs["href"] for tag, attrs in tags if tag == "a"] == ["MRPC/report.html"]
    for shown in ("70.0% ± 2.0", "73.0%", "81.0%", "3,668", "dev_mismatched", "61.0%"):
        assert shown in page
    assert not {tag for tag, _ in tags} & {"script", "img"}
    assert "Is the model worth it?" in (folder / "MRPC" / "report.html").read_text(encoding="utf-8")
    assert "without WNLI" not in page  # there is none
    whole = json.loads((folder / "glue.json").read_text())
    whole["tasks"]["WNLI"] = whole["tasks"]["RTE"]
    (folder / "glue.json").write_text(json.dumps(whole))
    out = tmp_path / "page.html"
    assert run(["report", str(folder), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(out)}
    page = out.read_text(encoding="utf-8")
    assert 'href="glue/MRPC/report.html"' in page
    assert "(70.0 without WNLI)" in page


def test_an_unfinished_one_names_its_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_glue(tmp_path / "glue")
    (folder / "glue.json").unlink()
    assert run(["report", str(folder)]) == 4
    assert f"bertwright report {folder / 'MRPC'}" in capsys.readouterr().err
