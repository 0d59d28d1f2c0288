"""Work on a Dask cluster: results in order, and errors that say what is wrong."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

import pytest

from bertwright.errors import BertwrightError, ConfigError
from bertwright.text import cluster
from bertwright.text.cluster import Work, map_on_cluster
from tests.text.cluster import start

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a scheduler with two workers."""
    with start(2) as started:
        yield started.scheduler_address


def square(number: int) -> int:
    """Work, with an error of its own, and an end of its process."""
    if number == 99:
        os._exit(9)
    return number**2 if number >= 0 else int(f"no square of {number}")


def make_square() -> Callable[[int], int]:
    return square


def make_no_square() -> Callable[[int], int]:
    raise BertwrightError("no such file")


def test_results_come_in_order(address: str) -> None:
    assert list(map_on_cluster(make_square, range(30), address)) == [n * n for n in range(30)]


def test_errors_are_raised_again(address: str) -> None:
    with pytest.raises(ValueError, match="no square of -1"):
        list(map_on_cluster(make_square, [1, 2, -1, 3], address))
    with pytest.raises(ConfigError, match=f"{socket.gethostname()}.*such file"):
        list(map_on_cluster(make_no_square, [1], address))


def test_work_that_ends_workers(address: str) -> None:
    with pytest.raises(BertwrightError, match=r"memory.*, it goes on$"):
        list(map_on_cluster(make_square, [1, 99, 2], address, ", it goes on"))


def test_no_scheduler_and_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("tcp://127.0.0.1:9", "nonsense"):
        with pytest.raises(ConfigError, match=wrong):
            list(map_on_cluster(make_square, [1], wrong))
    monkeypatch.setattr(cluster, "SECONDS", 1)
    with start(0) as empty, pytest.raises(ConfigError, match="no workers"):
        list(map_on_cluster(make_square, [1], empty.scheduler_address))


def test_a_scheduler_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "SECONDS", 3)  # in which a client tries to reach it again
    started = start(1)

    def items() -> Iterator[int]:
        yield from range(5)
        started.close()
        yield 5

    with pytest.raises(BertwrightError, match=started.scheduler_address):
        list(map_on_cluster(make_square, items(), started.scheduler_address))


def test_another_version_on_a_worker() -> None:
    with pytest.raises(ConfigError, match=r"0\.0"):
        Work("0.0", make_square).begin()
