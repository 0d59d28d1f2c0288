"""CPU threads that each compute whole tasks on one core, and the random numbers they draw.

`own_draws` makes training reproducible, not faster: threads that shared torch's generator would
draw from it in the order in which they happen to run.
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
    """Set the number of threads that torch's operations use in this thread, within the block."""
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
    """Give this thread a random generator of its own for modules on a CPU, within the block.

    Modules draw what they would draw after `torch.manual_seed(seed)`, whatever other threads draw.
    """
    _draws.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _draws.generator = None


def generator_on(device: torch.device | str) -> torch.Generator | None:
    """Return the generator that a module on a device draws from, or None for torch's own.

    On a CPU it is the generator of `own_draws`, if this thread has one.
    """
    return _draws.generator if torch.device(device).type == "cpu" else None
