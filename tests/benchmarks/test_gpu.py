"""`python -m benchmarks.gpu --smoke`: the one call on a GPU, rehearsed on a CPU.

It runs where packages of the command line and of the server are not installed, as on the machine
that it is for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MISSING = (
    "cyclopts",
    "rich",
    "tomli_w",
    "docstring_parser",
    "fastapi",
    "pydantic",
    "orjson",
    "uvicorn",
    "sacrebleu",
    "h5py",
)
PEERS = ("transformers", "sentence_transformers")
BLOCK = """
import builtins
import importlib.abc
import os
import sys


def refuse(name, file):
    blocked = name.partition(".")[0] in os.environ["BLOCKED"].split()
    if blocked and file.startswith(os.environ["OURS"]) and "site-packages" not in file:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class Blocked(importlib.abc.MetaPathFinder):  # importlib.import_module
    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe(1)
        while "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        refuse(name, frame.f_code.co_filename)


def guarded(name, globals=None, locals=None, fromlist=(), level=0):  # import, also of what is there
    if level == 0:
        refuse(name, (globals or {}).get("__file__") or "")
    return imported(name, globals, locals, fromlist, level)


imported, builtins.__import__ = builtins.__import__, guarded
sys.meta_path.insert(0, Blocked())
"""
"""Is run by every Python that finds it on its path, workers too: what our code imports is missing,
also where another package has imported it; what others import for themselves is there."""


def call(folder: Path, *options: str, missing: tuple[str, ...] = MISSING) -> list[dict[str, Any]]:
    """Run it without these packages; the lines that it wrote."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(BLOCK)
    paths = [str(site), str(ROOT), str(ROOT / "src")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "BLOCKED": " ".join(missing),
        "OURS": str(ROOT),
    }
    command = [sys.executable, "-m", "benchmarks.gpu", "--out", str(folder / "out.jsonl")]
    done = subprocess.run(
        [*command, "--smoke", *options], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    lines = (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    assert found[-1]["what"] == "end", done.stderr[-2000:]
    return found


def failures(lines: list[dict[str, Any]]) -> list[str]:
    return [f"{each['what']}: {each.get('error')}" for each in lines if each.get("ok") is False]


@pytest.mark.slow
def test_all_parts_run(tmp_path: Path) -> None:
    """All three, each check with a line that says whether it passed."""
    rows = "\n".join(f"a {word} film\t{n % 2}" for n, word in enumerate(["good", "bad"] * 60))
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text(f"sentence\tlabel\n{rows}\n")
    lines = call(tmp_path, "--minutes", "20", "--sst2", str(tmp_path))
    assert not failures(lines)
    assert {each["part"] for each in lines} == {"call", "speed", "use", "buys"}
    assert not [each for each in lines if "skipped" in each and each["what"] != "end"]
    by_name = {each["what"]: each for each in lines}
    assert by_name["card"]["bf16_tflops"] > 0
    ours = by_name["ours: bert-base, 128, mixed lengths"]
    assert ours["tokens_per_second"] > 0 < ours["share_of_peak"]
    assert len(by_name["kernels of a step"]["kernels"]) == 10
    assert by_name["waits of a step"]["wait_count"] == 0
    assert by_name["pre-training"]["steps"] == 6
    right = by_name["SST-2"]["dev_accuracy"] * 120  # of the rows of dev.tsv
    assert right == pytest.approx(round(right), abs=0.05)
    assert by_name["generation by transformers"]["ours_over_theirs"] > 0
    kernel = [each for each in lines if each["what"] == "calls of the kernel"]
    assert all(each["head_widths"] for each in kernel)


@pytest.mark.slow
def test_a_peer_that_is_missing_costs_none_of_our_figures(tmp_path: Path) -> None:
    """Without the peers their checks fail and ours pass."""
    options = ("--parts", "use", "--minutes", "20")
    lines = call(tmp_path, *options, missing=(*MISSING, *PEERS))
    failed = {each["what"] for each in lines if each.get("ok") is False}
    theirs = {"fine-tuning of transformers' model", "vectors by sentence-transformers, fp32"}
    assert theirs <= failed
    by_name = {each["what"]: each for each in lines}
    for name in theirs:
        assert "ModuleNotFoundError" in by_name[name]["traceback"]
    for name in ("vectors, fp32", "fine-tuning", "generation", "beam search"):
        assert by_name[name]["ours"] > 0
    assert by_name["the engine of serving"]["ok"]
