"""The cores and the memory that a container grants, and how long threads waited for a core."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bertwright import machine
from bertwright.machine import cpu_quota, processor, usable_cores, usable_memory
from tests.cgroups import system

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


def times(busy: float, **seconds: tuple[float, float]) -> dict[str, str]:
    """Return the files that tell for how many seconds a core was busy, and for how many each thread
    had a core and waited for one.
    """
    ticks = round(busy * os.sysconf("SC_CLK_TCK"))
    threads = {
        f"proc/self/task/{thread}/schedstat": f"{ran * 1e9:.0f} {waited * 1e9:.0f} 5\n"
        for thread, (ran, waited) in seconds.items()
    }
    return {"proc/stat": f"cpu 9 9 9 9\ncpu0 {ticks} 0 0 7 7 0 0 0 0 0\nintr 5\n", **threads}


def test_threads_that_wait_for_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    now, used = iter((100.0, 110.0, 110.0)), iter((3.0, 8.0, 12.0))
    monkeypatch.setattr(machine.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(machine.time, "process_time", lambda: next(used))
    system(tmp_path, times(20.0, first=(5.0, 1.0), second=(0.0, 0.0)))
    before = machine.core_times(tmp_path)
    system(tmp_path, times(30.0, first=(9.0, 5.0), second=(1.0, 0.0)))  # others: 5 of 10 seconds
    assert machine.waited_since(before, tmp_path) == pytest.approx(4 / 9)
    system(tmp_path, times(30.0, first=(9.0, 5.0), second=(1.0, 0.0)))  # others: 1 of 10 seconds
    assert machine.waited_since(before, tmp_path) == pytest.approx(1 / 10)


def test_without_the_use_of_the_cores_all_waiting_counts(tmp_path: Path) -> None:
    before = machine.core_times(tmp_path)
    assert machine.waited_since(before, tmp_path) is None
    files = times(0.0, first=(6.0, 2.0))
    system(tmp_path, {**files, "proc/stat": ""})
    assert machine.waited_since(before, tmp_path) == pytest.approx(2 / 8)
