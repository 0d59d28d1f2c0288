"""Work shared among the workers of a Dask cluster, its results in the order of the items.

The cluster is the user's: `dask scheduler` on one machine, `dask worker ADDRESS` on each, with this
version of Bertwright. Dask gives the work of a worker that died to another. It sends pickles both
ways, so whoever reaches the scheduler can run code on every machine of the cluster.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeVar

from bertwright.errors import BertwrightError, ConfigError, MissingExtra
from bertwright.version import __version__

Item = TypeVar("Item")
Result = TypeVar("Result")

SECONDS = 10
"""In which the scheduler must answer, and its first worker be there."""


def map_on_cluster(
    make_work: Callable[[], Callable[[Item], Result]],
    items: Iterable[Item],
    address: str,
    advice: str = "",
) -> Generator[Result, None, None]:
    """As `workers.map_in_order`, by the workers of the scheduler at `address`.

    Every thread of a worker makes the function once. Twice as many items as the cluster has
    threads, and one, are held.

    Raises:
        MissingExtra: Dask is not installed.
        ConfigError: no scheduler or no worker is there, or a worker cannot make the function: it
            has another version of Bertwright, or lacks a file.
        BertwrightError: workers die of an item, or the scheduler is gone.
        Exception: what the function raised.
    """
    with _connected(address) as client:
        # a task, which Dask repeats where its result is lost, as scattered data would be
        work = client.submit(Work, __version__, make_work, pure=False)
        waiting: deque[Any] = deque()

        def next_result() -> Result:
            with _cluster_errors(address, advice):
                result, error = waiting.popleft().result()
            if error is not None:
                raise error
            made: Result = result
            return made

        try:
            for item in items:
                with _cluster_errors(address, advice):
                    waiting.append(client.submit(_run, work, item, pure=False))
                    most = 2 * sum(client.nthreads().values())
                while len(waiting) > most:
                    yield next_result()
            while waiting:
                yield next_result()
        finally:
            with contextlib.suppress(Exception):  # of a scheduler that is gone
                client.cancel(list(waiting))


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Any]:
    """A client of a scheduler that has a worker."""
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise MissingExtra("cluster", "distributed", "--cluster") from error
    try:
        # refused at once, where Dask tries for all of the time
        socket.create_connection(get_address_host_port(address), SECONDS).close()
        client = Client(address, timeout=SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no Dask scheduler answers at {address}: start one with dask scheduler, and pass the "
            "address that it prints, as tcp://host:8786"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=SECONDS)
        except TimeoutError as error:
            raise ConfigError(
                f"the Dask scheduler at {address} has no workers: start some on each machine, with "
                f"dask worker {address} --nworkers -1 --nthreads 1"
            ) from error
        yield client


@contextlib.contextmanager
def _cluster_errors(address: str, advice: str) -> Iterator[None]:
    """Say what became of the cluster."""
    from distributed import KilledWorker

    try:
        yield
    except KilledWorker as error:
        raise BertwrightError(
            f"the same work ended {error.allowed_failures + 1} of the workers of {address}, most "
            f"likely for want of memory; start fewer on a machine and run the command again{advice}"
        ) from error
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a worker of {address} cannot import {error.name}: install Bertwright {__version__} "
            "there, with the same extras as here"
        ) from error
    except (CancelledError, OSError) as error:
        raise BertwrightError(
            f"the Dask scheduler at {address} is gone; start it and its workers, and run the "
            f"command again{advice}"
        ) from error


@dataclass(frozen=True, eq=False)
class Work:
    """What each worker gets once."""

    version: str
    """Of Bertwright, where it comes from."""
    make: Callable[[], Callable[[Any], Any]]

    def begin(self) -> Callable[[Any], Any]:
        """The function; ConfigError if this machine cannot make it."""
        here = f"the worker on {socket.gethostname()}"
        if self.version != __version__:
            raise ConfigError(
                f"{here} has Bertwright {__version__}, and this command is of {self.version}: "
                "install the same on all machines"
            )
        try:
            return self.make()
        except BertwrightError as error:
            raise ConfigError(f"{here}: {error}") from error


_begun = threading.local()


def _run(work: Work, item: Any) -> tuple[Any, Exception | None]:
    """What a thread of a worker does: a result, or what went wrong with it."""
    try:
        if getattr(_begun, "work", None) is not work:
            _begun.work = None
            _begun.function = work.begin()
            _begun.work = work
        return _begun.function(item), None
    except Exception as error:
        return None, error
