"""Runs that count on the disk, where it takes no more: an error that names the path, and no ruins.

The system's limit on the size of a file stands for a full disk: a test needs no rights for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from bertwright.arrays import new_memmap, write_array
from bertwright.atomic import disk_errors
from bertwright.cli.app import run as run_verb
from bertwright.cli.output import line_by_line
from bertwright.data.counted_pairs import BYTES, CountedPairs
from bertwright.errors import BertwrightError
from bertwright.report.pages import write_page
from bertwright.train.log import Log
from tests.raising import raises
from tests.small_bert import write_model
from tests.small_runs import build_data

resource = pytest.importorskip("resource", reason="needs limits of the system")
Limit = Callable[[int], None]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def largest_file(monkeypatch: pytest.MonkeyPatch) -> Iterator[Limit]:
    """Let no file of this process be larger than so many bytes."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_mapped_file_has_its_space_before_it_is_used(tmp_path: Path, largest_file: Limit) -> None:
    array = new_memmap(tmp_path / "a", np.int64, (3, 5))
    assert array.shape == (3, 5)
    assert not array.any()
    assert (tmp_path / "a").stat().st_blocks > 0
    largest_file(4096)
    raises(OSError, "File too large", new_memmap, tmp_path / "b", np.int64, (1000,))


def test_numbers_that_do_not_fit_are_an_error_of_the_system(
    tmp_path: Path, largest_file: Limit
) -> None:
    array = np.arange(3000).reshape(50, 60)
    with (tmp_path / "a").open("wb") as file:
        write_array(file, array[:, ::2])
    assert np.fromfile(tmp_path / "a", np.int64).tolist() == array[:, ::2].ravel().tolist()
    largest_file(4096)
    with (
        pytest.raises(BertwrightError, match=r"b .*File too large"),
        disk_errors(tmp_path / "b"),
        (tmp_path / "b").open("wb") as file,
    ):
        write_array(file, array)


def test_counts_that_do_not_fit(tmp_path: Path, largest_file: Limit) -> None:
    pairs = CountedPairs(tmp_path, 100 * BYTES)
    keys = np.arange(2000)
    largest_file(4096)
    raises(OSError, "File too large", pairs.add, (keys, keys.astype(np.float64)))


def test_an_ngram_run_ends_with_a_message(
    data: Path, tmp_path: Path, largest_file: Limit, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ["pretrain", "--model", "ngram", "--data", str(data), "--out", str(out)]
    largest_file(8192)
    assert run_verb(words) == 1
    assert f"{out} cannot be written: File too large" in capsys.readouterr().err
    assert not list(out.glob(".ngrams-*"))


def test_pages_logs_and_lines_leave_nothing_half_written(
    tmp_path: Path, largest_file: Limit
) -> None:
    def write_lines(out: Path) -> None:
        with line_by_line(out, prints=False) as write:
            for _ in range(100):
                write("x" * 100)

    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n' * 1000)
    largest_file(4096)
    page, lines = tmp_path / "page.html", tmp_path / "lines.jsonl"
    raises(BertwrightError, "page.html cannot be written", write_page, page, "x" * 10_000)
    raises(BertwrightError, "lines.jsonl cannot be written", write_lines, lines)
    raises(BertwrightError, "metrics.jsonl cannot be written", Log, tmp_path, print, 1000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.jsonl", "metrics.jsonl"]
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 1000


def test_vectors_of_which_no_block_was_written_leave_nothing(
    tmp_path: Path, largest_file: Limit, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_model(tmp_path / "model", ())
    (tmp_path / "in.txt").write_text("a b c\n" * 500)
    out = tmp_path / "out" / "v.jsonl"
    words = ["embed", "--model", str(model), "--input", str(tmp_path / "in.txt")]
    largest_file(4096)
    assert run_verb([*words, "--out", str(out)]) == 1
    assert f"{out} cannot be written: File too large" in capsys.readouterr().err
    assert list(out.parent.iterdir()) == []
