"""Workers: results in order, one that dies is an error, and none outlives its parent."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bertwright.errors import BertwrightError
from bertwright.text.tokenizer.files import BertRules
from bertwright.text.tokenizer.word_counts import count_words
from bertwright.text.workers import map_in_order

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")

SCRIPT = """
import itertools
from bertwright.text.tokenizer.files import BertRules
from bertwright.text.tokenizer.word_counts import count_words
count_words(itertools.repeat(["a b c"]), BertRules(), workers=2)
"""


class Deadly(str):
    """A document that ends the worker it is sent to."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (9,)


def square(number: int) -> int:
    """Work, with an error of its own."""
    return number**2 if number >= 0 else int(f"no square of {number}")


def make_square() -> Callable[[int], int]:
    return square


def half_a_reply(number: int) -> bytes:
    """Die as a worker does that is killed while it writes."""
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, struct.pack("!i", 1 << 20) + b"half")
    os._exit(9)


def make_half_a_reply() -> Callable[[int], bytes]:
    return half_a_reply


def test_results_come_in_order() -> None:
    assert list(map_in_order(make_square, range(30), 3)) == [n * n for n in range(30)]


def test_an_error_is_raised_again_with_its_traceback() -> None:
    with pytest.raises(ValueError, match="no square of -1") as raised:
        list(map_in_order(make_square, [1, 2, -1, 3], 2))
    assert "in square" in raised.value.__notes__[0]


def test_a_worker_that_dies_is_an_error() -> None:
    with pytest.raises(BertwrightError, match=r"worker died.*--workers$"):
        count_words([[Deadly()]] * 9, BertRules(), workers=2)
    with pytest.raises(BertwrightError, match="worker died"):
        list(map_in_order(make_half_a_reply, range(4), 2))


def test_sigterm_ends_a_count(tmp_path: Path) -> None:
    """While its workers stand still, too."""
    (tmp_path / "a.txt").write_text("some words of a corpus\n\n" * 4_000_000)
    train = ["tokenizer", "train", str(tmp_path / "a.txt"), "--out", str(tmp_path / "out")]
    process = subprocess.Popen([sys.executable, "-m", "bertwright", *train, "--workers", "2"])
    workers = _workers(process.pid)
    time.sleep(0.5)  # started, but perhaps not yet at work
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    process.terminate()
    assert process.wait(30) == 143
    _wait_for_the_end(workers)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _workers(pid: int) -> list[int]:
    """The two workers of a process, once they are there."""
    place = Path(f"/proc/{pid}/task/{pid}/children")
    end = time.monotonic() + 60
    found: list[str] = []
    while len(found) < 2:
        assert time.monotonic() < end, "no workers"
        time.sleep(0.02)
        with contextlib.suppress(OSError):  # of a child that is gone
            found = place.read_text().split()
            found = [p for p in found if "spawn_main" in Path(f"/proc/{p}/cmdline").read_text()]
    return [int(child) for child in found]


def _wait_for_the_end(pids: list[int]) -> None:
    end = time.monotonic() + 30
    while any(map(_alive, pids)):
        assert time.monotonic() < end, "a worker is left"
        time.sleep(0.02)


def test_no_worker_outlives_a_killed_count() -> None:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT])
    try:
        workers = _workers(process.pid)
        time.sleep(0.2)  # started, but perhaps not yet at work
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    _wait_for_the_end(workers)
