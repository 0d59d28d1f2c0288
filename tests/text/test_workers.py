"""Workers: one that dies is told, and none outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bertwright.errors import BertwrightError
from bertwright.text.tokenizer.files import CutRules
from bertwright.text.tokenizer.word_counts import count_words

SCRIPT = """
import itertools
from bertwright.text.tokenizer.files import CutRules
from bertwright.text.tokenizer.word_counts import count_words
count_words(itertools.repeat(["a b c"]), CutRules(), workers=2)
"""


class Deadly(str):
    """A document that ends the worker it is sent to."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (9,)


def test_a_worker_that_dies_is_told() -> None:
    with pytest.raises(BertwrightError, match=r"a worker died.*fewer --workers$"):
        count_words([[Deadly()]] * 9, CutRules(), workers=2)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_no_worker_outlives_a_killed_count() -> None:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT])
    place = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    end = time.monotonic() + 60
    workers: list[str] = []
    try:
        while len(workers) < 2 and time.monotonic() < end:
            workers = place.read_text().split()
            time.sleep(0.02)
        time.sleep(0.2)  # forked, but perhaps not yet at work
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert len(workers) >= 2
    while any(_alive(int(pid)) for pid in workers):
        assert time.monotonic() < end, "a worker is left"
        time.sleep(0.02)
