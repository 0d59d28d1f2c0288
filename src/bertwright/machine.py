"""Settings of the whole process, each with its measured gain, and usable cores.

What the user set outside (an environment variable) always stays. The variables are read when a
library is loaded, so they are set before torch is imported.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

ROOT = Path("/")

# glibc's mallopt: numbers from malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8


def bound_threads(root: Path = ROOT) -> None:
    """Have libraries start no more threads than the quota of a container feeds.

    Of a machine of 64 cores a container of two (`docker run --cpus 2`, a limit of Kubernetes) sees
    64: a training step of one layer (width 256, 2,048 tokens) took 1.3 to 1.5 times as long with 64
    threads, which stand still when the quota of a tenth of a second is used up, as with 2.
    """
    cores = usable_cores(root)
    if cpu_quota(root) is not None and cores < (os.cpu_count() or 1):
        os.environ.setdefault("OMP_NUM_THREADS", str(cores))


def sleep_when_idle() -> None:
    """Have threads of GNU's OpenMP sleep after 20,000 rounds of waiting for another, not 300,000.

    If that one lost its core to another process, spinning keeps a core from it: a server beside two
    busy processes answered 31 requests a second in place of 2.5, and alone as many either way (two
    cores of an Intel Xeon).
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "20000")


def keep_freed_memory() -> None:
    """Let glibc keep what is freed.

    By default every tensor over 32 MB is a fresh mapping whose pages are faulted in and cleared at
    each use. Keeping them made training steps on two cores 1.2 times faster.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, 2**31 - 1)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(_M_TOP_PAD, 64 * 2**20)
        # A second thread else has an arena of its own, which maps large tensors again.
        libc.mallopt(_M_ARENA_MAX, 1)


def keep_few_kernels() -> None:
    """Have oneDNN keep 256 of the kernels it makes, one for every shape of a product, not 1,024.

    Batches of texts have ever new shapes, and a kernel takes half a megabyte: 60 training steps on
    such batches ended at 1.26 GB in place of 1.54 (and took 1.03 times as long, on busy cores).
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")


def usable_cores(root: Path = ROOT) -> int:
    """Cores of this process, by its affinity and the quota of its control groups; at least 1."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, int(cpu_quota(root) or cores)))


def usable_memory(root: Path = ROOT) -> int | None:
    """Bytes of memory that this process may have: the machine's, or what a container's control
    groups of Linux (version 2) grant; None: the system does not say."""
    found = []
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemTotal:"):
            found.append(int(line.split()[1]) << 10)
    for folder in _control_groups(root):
        words = _words(folder / "memory.max")
        if len(words) == 1 and words[0].isdecimal():  # `max` is no bound
            found.append(int(words[0]))
    return min(found, default=None)


def cpu_quota(root: Path = ROOT) -> float | None:
    """The least number of cores that control groups of Linux (version 2) grant; None: no bound."""
    quotas = []
    for folder in _control_groups(root):
        words = _words(folder / "cpu.max")
        # `max` is no bound
        if len(words) == 2 and all(word.isdecimal() and int(word) for word in words):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def _control_groups(root: Path) -> list[Path]:
    """The folders of the control groups of this process, with all that hold them."""
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
