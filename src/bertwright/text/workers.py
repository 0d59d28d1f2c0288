"""Run a function in several processes, with results in the order of the items.

Each process has its own pipe: if one dies, however far it was in reading or writing, the other end
sees the pipe close. (`ProcessPoolExecutor` has one pipe for all results, and waits forever for the
rest of what a killed worker had begun to write.)
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from queue import SimpleQueue
from typing import Any, TypeVar

from bertwright.errors import BertwrightError
from bertwright.text.cluster import map_on_cluster

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    make_work: Callable[[], Callable[[Item], Result]],
    items: Iterable[Item],
    workers: int,
    advice: str = "",
    cluster: str | None = None,
) -> Generator[Result, None, None]:
    """Yield the results of a function in the order of `items`, holding at most 2 * workers + 1 of
    them.

    Close the generator to end the processes. A script must call this under `if __name__ ==
    "__main__":`, because processes start by importing the script.

    Args:
        make_work: makes the function, once in every process; it must be picklable.
        items: the items; they, the results and errors must be picklable.
        workers: the number of processes; 1: only this one.
        advice: the end of the error message if a worker dies.
        cluster: the address of a Dask scheduler whose workers do the work instead; see
            `cluster.map_on_cluster`.

    Raises:
        BertwrightError: a worker died.
        Exception: the exception that the function raised.
    """
    if cluster is not None:
        yield from map_on_cluster(make_work, items, cluster, advice)
        return
    if workers == 1:
        yield from map(make_work(), items)
        return
    spawn = multiprocessing.get_context("spawn")  # fork is unsafe with threads of torch and Rust
    free: SimpleQueue[Connection] = SimpleQueue()
    processes: list[SpawnProcess] = []
    connections: list[Connection] = []

    def run(item: Item) -> Result:
        connection = free.get()
        try:
            connection.send(item)
            result, error = connection.recv()
        except (EOFError, OSError) as closed:
            raise BertwrightError(
                "a worker died, most likely for lack of memory; run the command again with fewer "
                f"--workers{advice}"
            ) from closed
        finally:
            free.put(connection)
        if error is not None:
            raise error
        checked: Result = result
        return checked

    threads = ThreadPoolExecutor(workers)
    waiting: deque[Future[Result]] = deque()
    try:
        for _ in range(workers):
            ours, theirs = spawn.Pipe()
            connections.append(ours)
            processes.append(spawn.Process(target=_work, args=(theirs, make_work), daemon=True))
            processes[-1].start()
            theirs.close()
            free.put(ours)
        for item in items:
            waiting.append(threads.submit(run, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        started = [process for process in processes if process.pid is not None]
        for process in started:
            process.kill()  # they hold nothing to save, and a waiting thread continues
        threads.shutdown(wait=True, cancel_futures=True)
        for process in started:
            process.join()
        for connection in connections:
            connection.close()


def _work(connection: Connection, make_work: Callable[[], Callable[[Any], Any]]) -> None:
    """Work on items until the pipe closes, because the parent closed it or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    work = None
    while True:
        try:
            item = connection.recv()
        except (EOFError, OSError):
            return
        try:
            work = work or make_work()
            reply: tuple[Any, Exception | None] = (work(item), None)
        except Exception as error:  # raised again in the parent
            error.add_note(traceback.format_exc())
            reply = (None, error)
        try:
            connection.send(reply)
        except OSError:
            return
