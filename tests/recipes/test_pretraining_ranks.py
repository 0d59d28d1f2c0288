"""Two processes of torchrun pre-train, and are apart in time or in what they see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.small_runs import records

APART = """
import os, sys, time
from pathlib import Path
from bertwright.recipes import pretrain as pretraining
from tests.small_runs import config_of

make_learner = pretraining.make_learner

def late(*words):
    time.sleep(1.0)
    return make_learner(*words)

if os.environ["RANK"] == "1":
    pretraining.make_learner = late
often = {
    "log": {"every_steps": None, "every_seconds": 0.1},
    "validation": {"every_steps": None, "every_minutes": 0.005},
}
config = config_of(Path(sys.argv[1]), Path(sys.argv[2]), steps=60, **often)
pretraining.pretrain(config, lambda line: None)
"""


@pytest.mark.slow
def test_processes_that_begin_apart_have_one_clock(data: Path, tmp_path: Path) -> None:
    """Else one tells, and asks the others for its sums, a step before they do."""
    (tmp_path / "program.py").write_text(APART)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, *launcher, tmp_path / "program.py", data, tmp_path / "run"],
        cwd=Path(__file__).parents[2],
        env={"PATH": "", "PYTHONPATH": ".", "OMP_NUM_THREADS": "1"},
        timeout=200,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert len(records(tmp_path / "run")) > 4
