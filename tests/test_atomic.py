"""A file or a folder appears whole or not at all, and takes the place of nothing foreign."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bertwright.atomic import (
    atomic_file,
    atomic_folder,
    refuse_existing,
    refuse_source,
    replace_folder,
    verify_manifest,
    write_manifest,
)
from bertwright.errors import BertwrightError, ConfigError, DataError, IntegrityError
from tests.raising import assert_names, raises


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


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, "disk.*a is full"),
        (errno.EFBIG, "a .*File too large"),  # or `ulimit -f`
    ],
)
def test_a_disk_that_takes_no_more(tmp_path: Path, code: int, message: str) -> None:
    raises(BertwrightError, message, break_off, tmp_path / "a", OSError(code, os.strerror(code)))
    assert list(tmp_path.iterdir()) == []


def write(path: Path, text: str, overwrite: bool = False) -> None:
    """A folder as most verbs write one."""
    with atomic_folder(path, overwrite) as folder:
        (folder / "a.txt").write_text(text)
        write_manifest(folder)


def tree(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_a_folder_of_ours_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    write(out, "old")  # an empty one is free
    raises(ConfigError, "exists already.*--out.*--overwrite", write, out, "new")
    (tmp_path / "link").symlink_to(out)
    for place in (out, tmp_path / "link"):
        write(place, place.name, overwrite=True)
        assert (out / "a.txt").read_text() == place.name
    assert (tmp_path / "link").is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "out"]


VOCABULARY = ["training.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]


@pytest.mark.parametrize(
    ("name", "names"), [("out", VOCABULARY), ("step-00000007", ["trainer.json", "weights"])]
)
def test_what_has_no_manifest_but_is_ours(tmp_path: Path, name: str, names: list[str]) -> None:
    """A trained vocabulary, and a checkpoint of a run that lost its manifest."""
    out = tmp_path / name
    out.mkdir()
    for name in names:
        (out / name).write_text("")
    write(out, "new", overwrite=True)
    assert sorted(tree(out)) == ["MANIFEST.json", "a.txt"]


@pytest.mark.parametrize(
    "names",
    [
        ["thesis.txt"],
        ["config.toml", "environment.json"],  # a run: only what begins runs replaces them
        [*VOCABULARY, "thesis.txt"],
        ["training.json", "thesis.txt"],
        ["trainer.json", "thesis.txt"],
        ["MANIFEST.json"],
    ],
)
def test_what_is_not_ours_stays(tmp_path: Path, names: list[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in names:
        (out / name).write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(ConfigError, match=r"out holds .*manifest"):
        write(out, "new", overwrite=True)
    (tmp_path / "partial").mkdir()
    raises(ConfigError, "manifest", replace_folder, tmp_path / "partial", out)
    assert tree(tmp_path) == before


def test_what_was_put_beside_ours_stays(tmp_path: Path) -> None:
    write(tmp_path / "out", "old")
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"thesis\.txt.*manifest"):
        write(tmp_path / "out", "new", overwrite=True)
    assert (tmp_path / "out" / "a.txt").read_text() == "old"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_is_no_folder(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "t.txt").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("t.txt", "loop"):
        with pytest.raises(ConfigError, match=f"{name}.*folder"):
            write(tmp_path / name, "new", overwrite)
    (tmp_path / "partial").mkdir()
    raises(ConfigError, "is no folder", replace_folder, tmp_path / "partial", tmp_path / "t.txt")
    assert tree(tmp_path) == {"t.txt": "mine"}


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_where_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="this command runs in"):
        write(Path(name), "new", overwrite=True)
    assert list(tmp_path.iterdir()) == []


def test_a_source_stays(tmp_path: Path) -> None:
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "run")
    for out in (tmp_path / "run", tmp_path / "run" / "model", tmp_path / "link"):
        with pytest.raises(ConfigError) as caught:
            refuse_source(out, tmp_path / "run" / "model")
        assert_names(caught.value, tmp_path / "run" / "model", f"{out} ", "--out")
    refuse_source(tmp_path / "run" / "model" / "new", tmp_path / "run" / "model")


KILLED = """
import os, signal, sys
from pathlib import Path
from bertwright.atomic import atomic_file, atomic_folder
with atomic_folder(Path(sys.argv[1]) / "out", True) as folder, atomic_file(
    Path(sys.argv[1]) / "a.txt", True
) as file:
    (folder / "half").write_text("half")
    file.write("half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_kill_left_is_removed_by_the_next_run(tmp_path: Path) -> None:
    write(tmp_path / "out", "old")
    (tmp_path / "a.txt").write_text("old")
    before = tree(tmp_path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=600)
    assert killed.returncode == -signal.SIGKILL
    left = [place for place in tmp_path.iterdir() if ".partial-" in place.name]
    assert len(left) == 2
    assert before.items() <= tree(tmp_path).items()
    alive = tmp_path / f".out.partial-{os.getppid()}"
    others = tmp_path / f".other.partial-{left[0].name.rpartition('-')[2]}"
    (tmp_path / ".out.old-999999999").mkdir()
    for place in (alive, others):
        place.mkdir()
    write(tmp_path / "out", "new", overwrite=True)
    with atomic_file(tmp_path / "a.txt", overwrite=True) as file:
        file.write("new")
    assert {place.name for place in tmp_path.iterdir()} == {
        "out", "a.txt", alive.name, others.name,
    }  # fmt: skip


def test_the_last_copy_of_a_folder_is_not_removed(tmp_path: Path) -> None:
    """A kill between the two renames: nothing stands in the place, the old folder beside it."""
    (tmp_path / ".out.old-999999999").mkdir()
    write(tmp_path / "out", "new")
    assert (tmp_path / ".out.old-999999999").is_dir()


ENTRY = {"bytes": 1, "sha256": "0"}
OTHER_FORMS: list[Any] = [
    [], None, 3, {}, {"files": []}, {"files": None}, {"files": {"a": 3}}, {"files": {"a": {}}},
    {"files": {"a": {"bytes": True, "sha256": ""}}}, {"files": {"a": {"bytes": 1}}},
    {"files": {"../a": ENTRY}}, {"files": {"/a": ENTRY}}, {"files": {"": ENTRY}},
]  # fmt: skip
NO_JSON = [b"", b"\xff", b"[" * 100_000, b"9" * 9_999]


@pytest.mark.parametrize("content", [*NO_JSON, *(json.dumps(x).encode() for x in OTHER_FORMS)])
def test_a_manifest_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "MANIFEST.json").write_bytes(content)
    raises(IntegrityError, r"MANIFEST\.json", verify_manifest, tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can make a device")
def test_a_device_is_never_replaced(tmp_path: Path) -> None:
    device = tmp_path / "null"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    with pytest.raises(ConfigError, match=r"null.*device"), atomic_file(device, overwrite=True):
        raise AssertionError("opened")
    assert stat.S_ISCHR(device.stat().st_mode)


@pytest.mark.skipif(os.name != "posix", reason="needs named pipes")
def test_a_pipe_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for overwrite in (False, True):
        raises(ConfigError, "pipe.*device", refuse_existing, pipe, overwrite)
        with pytest.raises(ConfigError, match="pipe"), atomic_file(pipe, overwrite):
            raise AssertionError("opened")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_stays_and_leads_to_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a.txt")
    with atomic_file(link, overwrite=True) as file:
        file.write("new")
    assert link.is_symlink()
    assert (tmp_path / "a.txt").read_text() == "new"


ENDING = """
import os, signal, sys
from pathlib import Path
from bertwright.atomic import atomic_file
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # as the command line does
with atomic_file(Path(sys.argv[1]), overwrite=True) as file:
    file.write("new")
    if sys.argv[2] == "exit":
        sys.exit(1)
    if sys.argv[2] != "end":
        os.kill(os.getpid(), signal.Signals[sys.argv[2]])
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("ending", ["end", "exit", "SIGINT", "SIGTERM", "SIGKILL"])
def test_no_file_is_left_after_any_ending(tmp_path: Path, ending: str) -> None:
    """A killed process removes nothing; the next one that writes the path does."""
    path = tmp_path / "out"
    path.write_text("old")
    words = [sys.executable, "-c", ENDING, str(path), ending]
    subprocess.run(words, timeout=600, stderr=subprocess.DEVNULL)
    assert path.read_text() == ("new" if ending == "end" else "old")
    if ending == "SIGKILL":
        with atomic_file(path, overwrite=True) as file:
            file.write("next")
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(os.name != "posix", reason="needs file locks")
@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_no_file_is_left_where_there_are_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """As on network file systems without a lock daemon."""

    def flock(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", flock)
    with atomic_file(tmp_path / "out") as file:
        file.write("new")
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_no_file_is_left_in_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", opened)  # root may write anywhere
    raises(BertwrightError, "out cannot be written", write_nothing, tmp_path / "new" / "out")
    assert list(tmp_path.iterdir()) == []


def write_nothing(path: Path) -> None:
    with atomic_file(path):
        raise AssertionError("opened")


WRITING = """
import sys, time
from pathlib import Path
from bertwright.atomic import {0}
with {0}(Path(sys.argv[1]), overwrite=True) as out:
    print("writes", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs file locks")
@pytest.mark.parametrize("how", ["atomic_file", "atomic_folder"])
def test_a_second_writer_is_refused_while_the_first_lives(tmp_path: Path, how: str) -> None:
    path = tmp_path / "out"
    words = [sys.executable, "-c", WRITING.format(how), str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"writes\n"
        with pytest.raises(DataError, match="another process"):  # noqa: SIM117
            with WRITERS[how](path, overwrite=True):
                raise AssertionError("opened")
        first.kill()
    with WRITERS[how](path, overwrite=True):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


WRITERS: dict[str, Any] = {"atomic_file": atomic_file, "atomic_folder": atomic_folder}
