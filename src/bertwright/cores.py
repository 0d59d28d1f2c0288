"""How many cores this process may keep busy: what its container allows, not what the machine has.

A container of two cores on a machine of 64 (`docker run --cpus 2`, a limit of Kubernetes) sees 64.
Work that is split among 64 threads then stands still for most of each tenth of a second, when the
container's share of it is used up.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path("/")
SPINS = "20000"
"""Rounds of waiting awake; 300,000 are the default of GNU's library (libgomp's manual)."""


def usable_cores(root: Path = ROOT) -> int:
    """Cores of this process, by its affinity and the quota of its control groups; at least 1."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = cpu_quota(root)
    return cores if quota is None else max(1, min(cores, int(quota)))


def bound_threads(root: Path = ROOT) -> None:
    """Tell libraries that are not yet imported to start no more threads than a quota feeds.

    A number that is set outside stays.
    """
    cores = usable_cores(root)
    if cpu_quota(root) is not None and cores < (os.cpu_count() or 1):
        os.environ.setdefault("OMP_NUM_THREADS", str(cores))


def wait_asleep() -> None:
    """Have OpenMP's threads, of GNU's library not yet imported, soon sleep while one is not done.

    By its default they wait awake for fifteen times as long. If the one they wait for was set aside
    for another process, they keep the core that it could have: a server beside two busy processes
    answered 2.5 requests a second in place of 31, and alone as many either way (two cores of an
    Intel Xeon). What is set outside stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def cpu_quota(root: Path = ROOT) -> float | None:
    """Cores that control groups of Linux grant, the least of them; None if they set no bound.

    Args:
        root: where `proc` and `sys` are.
    """
    found = []
    for line in _lines(root / "proc/self/cgroup"):
        controllers, _, place = line.partition(":")[2].partition(":")
        if not controllers:  # version 2
            mount, names = root / "sys/fs/cgroup", ["cpu.max"]
        elif "cpu" in controllers.split(","):
            mount, names = root / "sys/fs/cgroup/cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        else:
            continue
        inner = Path(place.lstrip("/"))
        for group in (mount / inner, *(mount / parent for parent in inner.parents)):
            found.append(_share([line for name in names for line in _lines(group / name)]))
    return min((share for share in found if share is not None), default=None)


def _share(lines: list[str]) -> float | None:
    """Quota over period, of their numbers; `max` and -1 are no bound."""
    try:
        quota, period = map(int, " ".join(lines).split())
    except ValueError:
        return None
    return quota / period if quota > 0 and period > 0 else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
