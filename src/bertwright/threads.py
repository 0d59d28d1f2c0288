"""One core each: threads of which each computes a batch of its own.

Two threads that share a product wait for each other at its end, and a thread whose core another
process has taken is waited for: hundreds of times a batch. A thread that computes whole batches
alone waits for nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch


@contextmanager
def one_core_each(threads: int) -> Iterator[ThreadPoolExecutor]:
    """So many threads, in each of which torch uses one core; left early, no further task begins."""
    # torch.set_num_threads is of the calling thread, and of threads that begin later
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    with torch_threads(torch.get_num_threads()):
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """So many threads for each of torch's operations in this thread; afterwards as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Draws(threading.local):
    generator: torch.Generator | None = None


_draws = _Draws()


@contextmanager
def own_draws(seed: int) -> Iterator[None]:
    """What bricks draw in this thread on a CPU is what they would draw after
    `torch.manual_seed(seed)`, whatever other threads draw."""
    _draws.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _draws.generator = None


def generator_on(device: torch.device | str) -> torch.Generator | None:
    """What a brick draws from: this thread's own generator, or None for that of torch."""
    return _draws.generator if torch.device(device).type == "cpu" else None
