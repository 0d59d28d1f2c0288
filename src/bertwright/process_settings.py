"""Settings of the whole process, each with its measured gain.

An environment variable that the user has set is never changed. Libraries read these variables when
they are loaded, so the variables are set before torch is imported.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from bertwright.machine import ROOT, cpu_quota, usable_cores

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
