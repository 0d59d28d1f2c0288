"""A file appears whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertwright.atomic import atomic_file
from bertwright.errors import BertwrightError, ConfigError


def test_a_file_takes_its_place_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    with atomic_file(path) as file:
        file.write("é\n")
        assert not path.exists()
    assert path.read_bytes() == "é\n".encode()
    assert list(path.parent.iterdir()) == [path]


def break_off(path: Path, error: BaseException) -> None:
    """Write half a file."""
    with atomic_file(path, overwrite=True) as file:
        file.write("half")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error):
        break_off(path, error())
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.txt", "old")]


def test_what_is_there_stays_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ConfigError, match="exists already"), atomic_file(path):
        raise AssertionError("opened")
    with atomic_file(path, overwrite=True) as file:
        file.write("new")
    assert path.read_text() == "new"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="is a folder"), atomic_file(tmp_path / "folder"):
        raise AssertionError("opened")


def test_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(BertwrightError, match="is full"):
        break_off(tmp_path / "a", OSError(28, "No space left on device"))
    assert list(tmp_path.iterdir()) == []
