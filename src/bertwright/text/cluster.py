"""Run a function on the workers of a Dask cluster, with results in the order of the items.

The user starts the cluster: `dask scheduler` on one machine and `dask worker ADDRESS` on each, with
the same version of Bertwright. If a worker dies, Dask gives its work to another. Dask sends pickles
in both directions, so anyone who can reach the scheduler can run code on every machine of the
cluster.
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
"""The time within which the scheduler must answer and have its first worker."""


def map_on_cluster(
    make_work: Callable[[], Callable[[Item], Result]],
    items: Iterable[Item],
    address: str,
    advice: str = "",
) -> Generator[Result, None, None]:
    """Yield the results of `workers.map_in_order`, computed by the workers of the scheduler at
    `address`.

    Every thread of a worker makes the function once. At most one item more than twice the number of
    the cluster's threads is held.

    Raises:
        MissingExtra: Dask is not installed.
        ConfigError: there is no scheduler or no worker, or a worker cannot make the function
            because it has another version of Bertwright or lacks a file.
        BertwrightError: an item ends several workers, or the scheduler is gone.
        Exception: the exception that the function raised.
    """
    with _connected(address) as client:
        # a task, which Dask repeats if its result is lost; scattered data would stay lost
        work = client.submit(Work, __version__, make_work, pure=False)
        waiting: deque[Any] = deque()

        def next_result() -> Result:
            with _cluster_errors(address, advice):
                result, error = waiting.popleft().result()
            if error is not None:
                raise error
            checked: Result = result
            return checked

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
            with contextlib.suppress(Exception):  # the scheduler may be gone
                client.cancel(list(waiting))


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Yield a client of a scheduler that has at least one worker."""
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise MissingExtra("cluster", "distributed", "--cluster") from error
    try:
        # fails at once if the connection is refused; Dask would retry until the timeout
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
    """Turn Dask's errors into errors that say what happened to the cluster."""
    from distributed import KilledWorker

    try:
        yield
    except KilledWorker as error:
        raise BertwrightError(
            f"the same work ended {error.allowed_failures + 1} of the workers of {address}, most "
            f"likely for lack of memory; start fewer on a machine and run the command again{advice}"
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
    """The message that each worker receives once, from which it makes the function."""

    version: str
    """The version of Bertwright that sends it."""
    make: Callable[[], Callable[[Any], Any]]

    def begin(self) -> Callable[[Any], Any]:
        """Return the function; raise ConfigError if this machine cannot make it."""
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
    """Return the result for an item, or the error; runs in a thread of a worker."""
    try:
        if getattr(_begun, "work", None) is not work:
            _begun.work = None
            _begun.function = work.begin()
            _begun.work = work
        return _begun.function(item), None
    except Exception as error:
        return None, error
