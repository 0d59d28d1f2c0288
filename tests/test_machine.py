"""Settings of the process, which never replace the user's; a container's quota of cores."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bertwright.machine import (
    bound_threads,
    cpu_quota,
    keep_few_kernels,
    processor,
    sleep_when_idle,
    usable_cores,
    usable_memory,
)


def system(root: Path, files: dict[str, str]) -> Path:
    """A folder with these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V2 = {"proc/self/cgroup": "0::/kubepods/pod/box\n", "sys/fs/cgroup/kubepods/pod/box/cpu.max": ""}


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, None),
        ({**V2, "sys/fs/cgroup/kubepods/pod/box/cpu.max": "max 100000\n"}, None),
        ({**V2, "sys/fs/cgroup/kubepods/pod/box/cpu.max": "250000 100000\n"}, 2.5),
        ({**V2, "sys/fs/cgroup/kubepods/pod/cpu.max": "50000 100000\n"}, 0.5),
        ({**V2, "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4.0),  # seen from inside
        ({**V2, "sys/fs/cgroup/cpu.max": "dirt 100000\n"}, None),
    ],
)
def test_the_least_bound_around_a_process_holds(
    tmp_path: Path, files: dict[str, str], cores: float | None
) -> None:
    assert cpu_quota(system(tmp_path, files)) == cores


def test_memory_is_the_least_that_is_granted(tmp_path: Path) -> None:
    machine = {**V2, "proc/meminfo": "MemTotal:  2048 kB\nMemFree:  1024 kB\n"}
    assert usable_memory(system(tmp_path / "a", machine)) == 2048 << 10
    group = {**machine, "sys/fs/cgroup/kubepods/memory.max": "4096\n"}
    assert usable_memory(system(tmp_path / "b", group)) == 4096
    unbound = {**machine, "sys/fs/cgroup/kubepods/memory.max": "max\n"}
    assert usable_memory(system(tmp_path / "c", unbound)) == 2048 << 10
    assert usable_memory(tmp_path / "none") is None


def test_cores_are_whole_and_at_least_one(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    half = {**V2, "sys/fs/cgroup/cpu.max": "50000 100000\n"}
    assert usable_cores(system(tmp_path / "half", half)) == 1
    assert usable_cores(tmp_path / "none") >= 1


def test_threads_are_bound_by_a_quota_alone_and_never_over_a_wish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    bound_threads(tmp_path / "none")
    assert "OMP_NUM_THREADS" not in os.environ
    bounded = system(tmp_path, {**V2, "sys/fs/cgroup/cpu.max": "100000 100000\n"})
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
    program = "from bertwright.machine import keep_freed_memory as keep; keep(); bytes(1 << 26)"
    assert subprocess.run([sys.executable, "-c", program], timeout=600).returncode == 0


def test_the_processor_has_the_name_that_linux_gives_it(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Engine No. 2\n")
    assert processor(tmp_path) == "Engine No. 2"
    assert processor(tmp_path / "none")
