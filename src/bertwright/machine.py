"""Settings of the whole process, each with its measured gain, and the usable cores and memory.

An environment variable that the user has set is never changed. Libraries read these variables when
they are loaded, so the variables are set before torch is imported.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path("/")

# glibc's mallopt: numbers from malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8


def bound_threads(root: Path = ROOT) -> None:
    """Limit the threads of libraries to the cores that a container's CPU quota grants.

    A container with a quota of 2 cores (`docker run --cpus 2`, or a limit of Kubernetes) sees all
    64 cores of its machine. With 64 threads, which stop when the quota of a tenth of a second is
    used up, a training step of one layer (width 256, 2,048 tokens) took 1.3 to 1.5 times as long as
    with 2.
    """
    cores = usable_cores(root)
    if cpu_quota(root) is not None and cores < (os.cpu_count() or 1):
        os.environ.setdefault("OMP_NUM_THREADS", str(cores))


def sleep_when_idle() -> None:
    """Let threads of GNU's OpenMP that wait for another sleep after 20,000 rounds, not 300,000.

    If the other thread has lost its core to another process, threads that spin keep it from getting
    a core. On two cores of an Intel Xeon beside two busy processes, a server answered 31 requests
    per second instead of 2.5; on idle cores it answered as many with either setting.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "20000")


def keep_freed_memory() -> None:
    """Let glibc keep freed memory instead of returning it to the system.

    By default, every tensor over 32 MB is a new mapping, whose pages are faulted in and cleared at
    each use. Keeping the memory made training steps on two cores 1.2 times as fast.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, 2**31 - 1)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(_M_TOP_PAD, 64 * 2**20)
        # Otherwise a second thread has an arena of its own, which maps large tensors again.
        libc.mallopt(_M_ARENA_MAX, 1)


def keep_few_kernels() -> None:
    """Limit oneDNN's cache to 256 kernels instead of 1,024.

    oneDNN makes a kernel of half a megabyte for every shape of a product, and batches of texts have
    ever new shapes. After 60 training steps on such batches, the process used 1.26 GB instead of
    1.54; the steps took 1.03 times as long, on busy cores.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")


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


def core_times(root: Path = ROOT) -> dict[str, tuple[int, int]]:
    """Return the nanoseconds for which each thread of this process had a core, and for which it
    waited for one; empty if the system does not tell.
    """
    found = {}
    for path in (root / "proc/self/task").glob("*/schedstat"):
        words = _words(path)  # empty if the thread has ended
        if len(words) == 3:
            found[path.parent.name] = int(words[0]), int(words[1])
    return found


def waited_since(before: Mapping[str, tuple[int, int]], root: Path = ROOT) -> float | None:
    """Return the fraction of their time for which the threads waited for a core since
    `core_times` returned `before`; None: unknown. It is high if other processes use the cores.
    """
    ran = waited = 0
    for thread, (now_ran, now_waited) in core_times(root).items():
        then_ran, then_waited = before.get(thread, (0, 0))
        ran += now_ran - then_ran
        waited += now_waited - then_waited
    return waited / (ran + waited) if ran + waited > 0 else None


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
