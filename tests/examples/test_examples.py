"""The examples run, and so do the programs of docs/howto/python.md."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import bertwright
from bertwright.cli.app import run
from tests.house.source import ROOT

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"
SMALL = {"preset": "tiny", "steps": 4, "minutes": None, "progress": False, "batch.tokens": 1024}
SMALLER = {
    '"mini", minutes=30': '"tiny", steps=4, **{"batch.tokens": 1024}',
    "steps=200": "steps=4",
    '"batch.tokens": 8192': '"batch.tokens": 1024',
    "steps=20,": 'steps=4, **{"batch.tokens": 1024},',
}
"""What makes the programs of docs/howto/python.md quick; nothing else of them is changed."""
TEXT = "\n\n".join(f"The dog of house {n} sat.\nIt slept near the {n}th door.\n" for n in range(80))


def main_of(name: str) -> Any:
    return runpy.run_path(str(EXAMPLES / name))["main"]


def test_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = main_of("pretrain.py")([], tmp_path, **SMALL)
    assert run.report.stat().st_size > 10_000
    task = main_of("finetune_lists.py")(run.folder, tmp_path / "task", epochs=1.0, progress=False)
    rows = [json.loads(line) for line in (task.folder / "dev-predictions.jsonl").open()]
    right = [row["label"] == row["gold"] for row in rows]
    assert task.metrics["accuracy"] == pytest.approx(sum(right) / len(rows))
    assert "on new texts: {'accuracy'" in capsys.readouterr().out


def test_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((EXAMPLES / "quick_tour.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "the notebook is kept without outputs"
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
            if "settings" in names and number == 1:
                names |= {"settings": SMALL, "epochs": 1.0}
    assert names["records"] == names["run"].records
    assert names["vectors"].shape == (2, 128)


def write_search(folder: Path) -> None:
    """Write a search as BEIR's data sets have it."""
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "", "text": "the dog sat"}\n'
        '{"_id": "d2", "title": "", "text": "a house by the sea"}\n'
    )
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "a dog"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")


def test_programs_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text(TEXT)
    (tmp_path / "vectors.txt").write_text("film 0.1 0.9\nmovie 0.2 0.8\ntrain 0.9 0.1\n")
    assert run(["convert", "vectors.txt", "glove"]) == 0
    rows = "a dog,the dog,4.5\na cat,the door,1\nthe house,a house,5\na dog,the sea,0.5\n"
    (tmp_path / "sts-test.csv").write_text(f"text,text2,score\n{rows}")
    write_search(tmp_path / "scifact")
    text = (ROOT / "docs" / "howto" / "python.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    used: set[str] = set()
    for program in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        for old, new in SMALLER.items():
            used |= {old} if old in program else set()
            program = program.replace(old, new)
        exec(compile(program, "docs/howto/python.md", "exec"), names)
    assert isinstance(names["again"], bertwright.Run)
    assert names["losses"]
    assert used == set(SMALLER), "docs/howto/python.md has changed; change SMALLER too"
