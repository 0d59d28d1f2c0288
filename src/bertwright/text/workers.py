"""Processes that share work, its results in the order in which it was given."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import TypeVar

from bertwright.errors import BertwrightError

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    pool: ProcessPoolExecutor,
    work: Callable[[Item], Result],
    items: Iterable[Item],
    under_way: int,
    advice: str = "",
) -> Iterator[Result]:
    """The results of `work` in the order of `items`, of which at most `under_way` are held.

    Raises:
        BertwrightError: a worker died; `advice` ends the message.
    """
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= under_way:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise BertwrightError(
            "a worker died, most likely for want of memory; run the command again with fewer "
            f"--workers{advice}"
        ) from error


def start_worker() -> None:
    """What a worker does first: leave Ctrl-C to its parent, and die with it, however that dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
