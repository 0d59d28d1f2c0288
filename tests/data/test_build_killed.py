"""A build that is killed, truly: no worker is left behind, and the next build goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bertwright.data.build import build_shards
from bertwright.data.shards import open_shards
from bertwright.text.tokenizer.tokenizer import make_tokenizer

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")

SCRIPT = """
import sys, time
from bertwright.data.build import build_shards
build_shards(
    [sys.argv[1]], sys.argv[2], sys.argv[3],
    workers=2, block_characters=2000, shard_tokens=5000,
    on_progress=lambda done, total: time.sleep(0.02),
)
"""


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(happened: object, seconds: float = 60) -> None:
    assert callable(happened)
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@pytest.mark.slow
def test_a_killed_build_leaves_no_worker_and_goes_on(tmp_path: Path) -> None:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    make_tokenizer([*special, *"abcdefgh."]).save(tmp_path / "tokenizer")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"a b c d {'e ' * (n % 30)}.\n\n" for n in range(4_000)))
    options: dict[str, Any] = {"block_characters": 2000, "shard_tokens": 5000}
    build_shards([str(corpus)], tmp_path / "whole", tmp_path / "tokenizer", workers=1, **options)
    places = [str(corpus), str(tmp_path / "out"), str(tmp_path / "tokenizer")]
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, *places])
    try:
        partial = tmp_path / ".out.building"
        wait_until(lambda: (partial / "shard-00002.tokens").exists())
        workers = children(process.pid)
        assert len(workers) >= 2
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    wait_until(lambda: not any(map(alive, workers)))
    assert not (tmp_path / "out").exists()
    finished = len(json.loads((partial / "journal.json").read_text())["shards"])
    notes: list[str] = []
    options |= {"workers": 1, "on_note": notes.append}
    build_shards([str(corpus)], tmp_path / "out", tmp_path / "tokenizer", **options)
    assert finished > 1
    assert f"{finished} finished shards" in notes[0]
    for place in (tmp_path / "whole").glob("*.*"):
        assert place.read_bytes() == (tmp_path / "out" / place.name).read_bytes(), place.name
    assert open_shards(tmp_path / "out").num_documents == 4_000
