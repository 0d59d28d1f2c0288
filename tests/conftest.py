"""What several test files need: the command line, and the shared corpora where they are."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Before anything is imported that starts threads."""
    # a shell that begins the suite in the background has it ignore Ctrl-C; tests send it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # each process would compile everything again: those of pytest-xdist and those that tests start
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if config.getoption("numprocesses", 0):  # processes of pytest-xdist: a core each
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["HF_HUB_OFFLINE"] = "1"
    settings.register_profile("untimed", deadline=None, max_examples=50)
    settings.load_profile("untimed")


LONGEST = (
    "cli/test_pretrain.py",
    "checkpoint/export/test_write.py",
    "serve/test_image.py",
    "benchmarks/test_gpu.py",
    "serve/test_playground.py",
    "contract/test_verbs.py",
    "serve/test_process.py",
    "recipes/compare/test_run.py",
)
"""The files whose tests take longest begin first, so that no process is idle at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by that; the rest stays in the order of the folders."""
    ranks = {ROOT / "tests" / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


def pytest_collection_finish() -> None:
    """Leave the suite itself out of garbage collection: a server that starts searches all else."""
    gc.freeze()
    gc.unfreeze = lambda: None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests did not run because this machine lacks something, and what it lacks."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith(("needs ", "could not import ")):
            reasons[reason] += 1
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"not run: {count} tests, {reason}", yellow=True)


@pytest.fixture(autouse=True, scope="session")
def unflushed() -> Iterator[None]:
    """Files are not flushed to the disk: no test cuts the power, and a flush takes milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def unmeasured() -> Iterator[None]:
    """Processors are not timed, and `auto` is fp32 on each of them."""
    from bertwright.train import hardware

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hardware, "matmul_rate", lambda *_, **__: 1e11)
        patch.setattr(hardware, "multiplies_bfloat16", lambda device: False)
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of the shared corpora, named by BERTWRIGHT_SHARED; the test is skipped without."""
    folder = os.environ.get("BERTWRIGHT_SHARED", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the shared corpora: set BERTWRIGHT_SHARED")
    return Path(folder)


@pytest.fixture(scope="session")
def command_line() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `bertwright` in a process of its own: `command_line("info", "--json", cwd=folder)`."""

    def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
        settings = {"stdin": subprocess.DEVNULL, "timeout": 240, "env": environment, **options}
        return subprocess.run(
            [sys.executable, "-m", "bertwright", *words],
            capture_output=True,
            text=True,
            **settings,
        )

    return run
