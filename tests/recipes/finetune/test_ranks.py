"""Two processes of torchrun fine-tune as one does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.task_files import learn, write_files, write_model

OPTIONS: dict[str, Any] = {"epochs": 3.0, "dropout": 0.0}
PROGRAM = f"""
import sys
from pathlib import Path
from tests.task_files import learn

model, out, train, dev = map(Path, sys.argv[1:])
learn(model, out, "tagging", train, dev, **{OPTIONS})
"""


@pytest.mark.slow
def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    train, dev = write_files(tmp_path, "tagging")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    one, two = tmp_path / "one", tmp_path / "two"
    learn(model, one, "tagging", train, dev, **OPTIONS)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run(
        [sys.executable, *command, program, model, two, train, dev],
        check=True,
        cwd=Path(__file__).parents[3],
        env={"PATH": "", "PYTHONPATH": ".", "OMP_NUM_THREADS": "1"},
        timeout=200,
        capture_output=True,
    )
    metrics = [json.loads((out / "results.json").read_text())["metrics"] for out in (one, two)]
    assert metrics[0]["f1"] > 0.3
    assert metrics[1] == pytest.approx(metrics[0], abs=0.02)
