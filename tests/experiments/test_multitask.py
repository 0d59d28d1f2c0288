"""The experiment with several tasks: what is trained and evaluated on, and a tiny run of it."""

from __future__ import annotations

import importlib.util
import json
import sys
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

from bertwright.data.build import build_shards
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.house.source import ROOT
from tests.small_runs import SPECIAL, WORDS


@pytest.fixture
def multitask() -> ModuleType:
    path = ROOT / "experiments/multitask/run.py"
    spec = importlib.util.spec_from_file_location("multitask", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sentences_of_known_tags_alone(multitask: ModuleType, tmp_path: Path) -> None:
    columns, out = tmp_path / "columns.txt", tmp_path / "out.txt"
    columns.write_text(
        "-DOCSTART-\tX\tX\n\na\tDET\tDT\ncat\tNOUN\tNN\n\nla\tX\tFW\n\ncat\tNOUN\tNN\n"
    )
    assert multitask.first(columns, 1, out, "2") == {"DET", "NOUN"}
    assert out.read_text() == "a\tDET\tDT\ncat\tNOUN\tNN\n"
    assert multitask.first(columns, 3, out, "2", {"DET", "NOUN"}) == {"DET", "NOUN"}
    assert out.read_text() == "a\tDET\tDT\ncat\tNOUN\tNN\n\ncat\tNOUN\tNN\n"


@pytest.mark.slow
def test_the_experiment_runs(
    multitask: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tokenizer([*SPECIAL, *WORDS]).save(tmp_path / "tokenizer")
    lines = [f"{' '.join(WORDS[n % 20 : n % 20 + 8])}\n\n" for n in range(60)]
    (tmp_path / "corpus.txt").write_text("".join(lines))
    shards = tmp_path / "shards"
    build_shards([str(tmp_path / "corpus.txt")], shards, tmp_path / "tokenizer", workers=1)
    tags = {"UD-EWT": "NOUN NN", "CoNLL-2000": "NN B-NP", "CoNLL-2003": "NN B-NP B-PER"}
    for folder, columns in tags.items():
        (tmp_path / folder).mkdir()
        other = columns.replace("NOUN", "VERB").replace("B-NP", "B-VP").replace("PER", "LOC")
        sentence = f"{WORDS[1]} {columns}\n{WORDS[2]} {other}\n\n"
        for name in ("train", "dev", "test"):
            (tmp_path / folder / f"{name}.txt").write_text(20 * sentence)
    monkeypatch.setattr(multitask, "PASSES", {8: 1})
    words = ["--data", shards, "--tagging", tmp_path, "--runs", tmp_path / "runs"]
    words += ["--steps", 1, "--sentences", 8, "--seeds", 2]
    monkeypatch.setattr(sys, "argv", ["multitask.py", *map(str, words)])
    multitask.main()
    lines = (tmp_path / "runs/results.jsonl").read_text().splitlines()
    rows = {(row["task"], row["way"]): row for row in map(json.loads, lines)}
    assert set(rows) == set(product(("pos", "chunks", "entities"), ("alone", "together")))
    for row in rows.values():
        assert len(row["seeds"]) == 2
        assert row["mean"] == pytest.approx(sum(row["seeds"]) / 2, abs=1e-4)
