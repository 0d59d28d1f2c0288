"""The cores and the memory that a container grants, and how long threads waited for a core."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bertwright import machine
from bertwright.machine import cpu_quota, processor, usable_cores, usable_memory


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


def test_the_processor_has_the_name_that_linux_gives_it(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Engine No. 2\n")
    assert processor(tmp_path) == "Engine No. 2"
    assert processor(tmp_path / "none")


def times(**seconds: tuple[float, float]) -> dict[str, str]:
    """Return the files that tell for how many seconds each thread had a core and waited for one."""
    return {
        f"proc/self/task/{thread}/schedstat": f"{ran * 1e9:.0f} {waited * 1e9:.0f} 5\n"
        for thread, (ran, waited) in seconds.items()
    }


def test_threads_that_wait_for_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    now, used = iter((100.0, 110.0, 100.0, 110.0)), iter((5.0, 17.0, 0.0, 19.0))
    monkeypatch.setattr(machine.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(machine.time, "process_time", lambda: next(used))
    system(tmp_path, times(first=(5.0, 1.0), second=(0.0, 0.0)))
    before = machine.core_times(tmp_path)
    system(tmp_path, times(first=(11.0, 5.0), second=(6.0, 0.0)))  # 12 s of 20, and 4 waited
    assert machine.waited_since(before, tmp_path) == pytest.approx(4 / 16)

    system(tmp_path, times(first=(0.0, 0.0), second=(0.0, 0.0)))
    before = machine.core_times(tmp_path)
    system(tmp_path, times(first=(10.0, 8.0), second=(9.0, 9.0)))  # it had 19 s of 20
    assert machine.waited_since(before, tmp_path) == pytest.approx(1 / 20)


def test_nothing_is_known_where_the_system_does_not_tell(tmp_path: Path) -> None:
    assert machine.waited_since(machine.core_times(tmp_path), tmp_path) is None
