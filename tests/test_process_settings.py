"""Settings of the process, which never replace the user's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bertwright.process_settings import bound_threads, keep_few_kernels, sleep_when_idle
from tests.cgroups import system


def test_threads_are_bound_by_a_quota_alone_and_never_over_a_wish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    bound_threads(tmp_path / "none")
    assert "OMP_NUM_THREADS" not in os.environ
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 100000\n"}
    bounded = system(tmp_path, files)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    bound_threads(bounded)
    assert os.environ["OMP_NUM_THREADS"] == "7"
    monkeypatch.delenv("OMP_NUM_THREADS")
    bound_threads(bounded)
    assert os.environ.pop("OMP_NUM_THREADS") == "1"


@pytest.mark.parametrize(
    ("set_it", "name", "value"),
    [
        (sleep_when_idle, "GOMP_SPINCOUNT", "20000"),
        (keep_few_kernels, "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256"),
    ],
)
def test_a_setting_is_the_users_choice(
    monkeypatch: pytest.MonkeyPatch, set_it: Callable[[], None], name: str, value: str
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    for given in (None, "7"):
        monkeypatch.setenv(name, given or "")  # given back at the end
        if given is None:
            monkeypatch.delenv(name)
        set_it()
        assert os.environ[name] == (given or value)


def test_threads_that_are_to_wait_actively_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    sleep_when_idle()
    assert "GOMP_SPINCOUNT" not in os.environ


def test_memory_still_comes_with_freed_memory_kept() -> None:
    program = (
        "from bertwright.process_settings import keep_freed_memory as keep; keep(); bytes(1 << 26)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=600).returncode == 0
