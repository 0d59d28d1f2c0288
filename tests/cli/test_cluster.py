"""Work on a Dask cluster: the same results as here, in order, and errors that say what is wrong."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import dask
import pytest
from distributed import LocalCluster

from bertwright.errors import BertwrightError, ConfigError
from bertwright.text import cluster
from bertwright.text.cluster import Work, map_on_cluster
from tests.cli.conftest import JsonOf, Ran

pytestmark = pytest.mark.slow


def start(workers: int) -> LocalCluster:
    """A scheduler and workers on this computer; work that ended one is not given to another."""
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        return LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        )


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


def test_a_vocabulary_shards_and_vectors_are_those_made_here(
    address: str, tiny: Path, tmp_path: Path, ran: Ran, json_of: JsonOf
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a bad cab . a bee fed a deaf cad .\n\nda fee, a bed ?\n\n" * 40, "utf-8")
    made = {}
    for name, more in {"here": [], "there": ["--cluster", address]}.items():
        out = tmp_path / name
        sizes = ["--vocab-size", 30, "--out", out / "words"]
        ran("tokenizer", "train", corpus, *sizes, *more)
        ran("data", "build", corpus, "--tokenizer", tiny, "--out", out / "shards", *more)
        words = ["embed", "--model", tiny, "--input", corpus, "--max-length", 12, "--truncate"]
        found = json_of(*words, "--out", out / "v.npy", "--normalize", *more)
        assert (found["cut"], found["tokens_cut"]) == (80, 600)
        ran(*words, "--out", out / "t.jsonl", "--pooling", "none", *more)
        files = sorted(path for path in out.rglob("*") if path.is_file())
        made[name] = {path.relative_to(out): path.read_bytes() for path in files}
    assert len(made["here"]) > 10
    for path, found in made["here"].items():
        assert made["there"][path] == found or path.name == "environment.json", path
    other = tmp_path / "other"
    error = ran(*words, "--out", other / "v.npy", "--cluster", "tcp://127.0.0.1:9", code=2).err
    assert "tcp://127.0.0.1:9" in error


def test_results_come_in_order(address: str) -> None:
    assert list(map_on_cluster(make_square, range(30), address)) == [n * n for n in range(30)]


def test_errors_are_raised_again(address: str) -> None:
    with pytest.raises(ValueError, match="no square of -1"):
        list(map_on_cluster(make_square, [1, 2, -1, 3], address))
    with pytest.raises(ConfigError, match=f"{socket.gethostname()}.*no such file"):
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
