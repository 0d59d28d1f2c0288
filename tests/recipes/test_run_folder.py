"""A run's folder belongs to one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from bertwright.errors import ConfigError
from bertwright.recipes import run_folder
from tests.small_runs import assert_same_run, config_of, fails, newest, train


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"overwrite": True}], ids=str)
def test_one_process_writes_a_run(
    data: Path, tmp_path: Path, whole_run: Path, how: dict[str, bool]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole_run, run)
    (run / "checkpoints" / ".step-00000021.partial-7").mkdir()  # of the other, which writes it
    config = config_of(data, run)
    with (
        run_folder.alone(run),
        pytest.raises(ConfigError, match="another process"),
    ):
        train(config, **how)
    assert_same_run(run, whole_run)
    assert (run / "checkpoints" / ".step-00000021.partial-7").is_dir()
    train(config, resume=True)


def test_two_begin_at_once(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes while the first still prepares."""
    begin, config = run_folder.begin, config_of(data, tmp_path / "run", steps=1)

    def begin_late(*words: object) -> None:
        monkeypatch.setattr(run_folder, "begin", begin)
        fails(config, ConfigError, "another process")
        begin(*words)

    monkeypatch.setattr(run_folder, "begin", begin_late)
    train(config)
    assert newest(tmp_path / "run").name == "step-00000001"


def test_a_file_system_without_locks(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_here(*words: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none_here)
    train(config_of(data, tmp_path / "run", steps=1))


def test_a_file_where_the_run_should_be(data: Path, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    for how in (False, True):
        with pytest.raises(ConfigError, match="run cannot be a folder"):
            train(config_of(data, tmp_path / "run", steps=1), overwrite=how)
    assert (tmp_path / "run").read_text() == "mine"


def test_an_old_checkpoint_that_cannot_go_ends_no_run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network's disk, while another process has a file of it open."""
    remove = os.rmdir

    def held(path: str | Path, **words: int) -> None:
        if "step-00000002" in str(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        remove(path, **words)

    monkeypatch.setattr(os, "rmdir", held)
    keep = {"every_steps": 2, "keep": 1}
    train(config_of(data, tmp_path / "run", steps=6, checkpoint=keep))
    monkeypatch.undo()
    assert newest(tmp_path / "run").name == "step-00000006"
