"""Threads on a CPU of which each computes whole batches on one core, and what they draw.

Two threads that share a product wait for each other at its end, and a thread whose core another
process has taken is waited for, hundreds of times a batch. A thread that computes whole batches
alone waits for nobody.

What it gains in training, as tokens a second against sharing each product on two cores
(`benchmarks/README.md`, "Beside other processes"; two processors):

| | bert-mini | bert-tiny |
|---|---|---|
| quiet cores | 1.04, 1.05 | 0.88, 0.97 |
| beside one busy process | 1.5, 1.7 | 1.1 |
| beside two busy processes | 1.3, 2.9 | 2.1 |

`own_draws` gains no speed. Threads that drew from torch's one generator would draw in the order in
which they happen to run, and no step could be repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch


@contextmanager
def one_core_each(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Provide a pool of threads, in each of which torch uses one core.

    If the block is left early, no further task begins.
    """
    # torch.set_num_threads applies to the calling thread, and to threads that begin later
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    with torch_threads(torch.get_num_threads()):
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let torch's operations in this thread use this number of threads within the block."""
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
    """Let modules draw in this thread on a CPU what they would draw after
    `torch.manual_seed(seed)`, whatever other threads draw.
    """
    _draws.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _draws.generator = None


def generator_on(device: torch.device | str) -> torch.Generator | None:
    """Return the generator that a module draws from: this thread's own, or None for torch's."""
    return _draws.generator if torch.device(device).type == "cpu" else None
