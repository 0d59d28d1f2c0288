"""The processor, the cores and the memory of this process, by its affinity and the limits of a
container, and how long its threads waited for a core.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
"""The folder that holds `proc` and `sys`."""


def processor(root: Path = ROOT) -> str:
    """Return the name of the processor, such as "AMD EPYC 7763"."""
    text = "\n".join(_lines(root / "proc/cpuinfo"))
    name = re.search(r"^(?:model name|hardware)\s*:(.*)", text, re.IGNORECASE | re.MULTILINE)
    return name[1].strip() if name else platform.processor() or platform.machine()


def usable_cores(root: Path = ROOT) -> int:
    """Return the cores of this process by its affinity and its CPU quota; at least 1."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, int(cpu_quota(root) or cores)))


@dataclass(frozen=True)
class CoreTimes:
    """How this process and others have used the cores, until a moment."""

    at: float
    """The moment, in seconds of `time.monotonic`."""
    threads: Mapping[str, tuple[int, int]]
    """The nanoseconds for which each thread of this process had a core, and for which it waited for
    one; empty if the system does not tell.
    """
    others: float | None
    """The seconds for which other processes had the cores of this one; None: unknown."""


def core_times(root: Path = ROOT) -> CoreTimes:
    """Return how this process and others have used the cores."""
    found = {}
    for path in (root / "proc/self/task").glob("*/schedstat"):
        words = _words(path)  # empty if the thread has ended
        if len(words) == 3:
            found[path.parent.name] = int(words[0]), int(words[1])
    busy = _busy_seconds(root)
    others = None if busy is None else busy - time.process_time()
    return CoreTimes(time.monotonic(), found, others)


def _busy_seconds(root: Path) -> float | None:
    """Return the seconds for which the cores of this process were in use; None: unknown."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    own = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = 0
    for line in _lines(root / "proc/stat"):
        name, *words = line.split()
        if name in own:
            user, nice, system, _idle, _waiting, *more = map(int, words)
            ticks += user + nice + system + sum(more[:3])
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else None


def waited_since(before: CoreTimes, root: Path = ROOT) -> float | None:
    """Return the fraction of their time for which the threads waited for a core that another
    process used, since `core_times` returned `before`; None: unknown.

    Threads of this process also wait for each other if there are more of them than cores, so the
    fraction is at most that of the cores' time which other processes used.
    """
    now = core_times(root)
    ran = waited = 0
    for thread, (now_ran, now_waited) in now.threads.items():
        then_ran, then_waited = before.threads.get(thread, (0, 0))
        ran += now_ran - then_ran
        waited += now_waited - then_waited
    if ran + waited == 0:
        return None
    fraction = waited / (ran + waited)
    if before.others is None or now.others is None:
        return fraction
    of_cores = (now.at - before.at) * usable_cores(root)
    return max(0.0, min(fraction, (now.others - before.others) / of_cores))


def usable_memory(root: Path = ROOT) -> int | None:
    """Return the bytes of memory that this process may use, or None if the system does not tell.

    It is the memory of the machine, or the limit of Linux control groups (version 2) if that is
    lower, as in a container.
    """
    found = []
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemTotal:"):
            found.append(int(line.split()[1]) << 10)
    for folder in _control_groups(root):
        words = _words(folder / "memory.max")
        if len(words) == 1 and words[0].isdecimal():  # `max` means no limit
            found.append(int(words[0]))
    return min(found, default=None)


def cpu_quota(root: Path = ROOT) -> float | None:
    """Return the lowest CPU quota of Linux control groups (version 2) in cores; None: no quota."""
    quotas = []
    for folder in _control_groups(root):
        words = _words(folder / "cpu.max")
        # `max` means no limit
        if len(words) == 2 and all(word.isdecimal() and int(word) for word in words):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def _control_groups(root: Path) -> list[Path]:
    """Return the folders of the control groups of this process and of all their parents."""
    mount, found = root / "sys/fs/cgroup", []
    for line in _words(root / "proc/self/cgroup"):
        inner = mount / line.partition("::/")[2]
        folders = [inner, *inner.parents]
        found += folders[: folders.index(mount) + 1]
    return found


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
