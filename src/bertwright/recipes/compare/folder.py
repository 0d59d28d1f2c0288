"""The folder of a comparison: what it may hold, and that one process uses it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertwright.atomic import disk_errors, held, parents_made, refuse_existing
from bertwright.errors import ConfigError
from bertwright.recipes.compare.steps import STEPS
from bertwright.report.read import LADDER
from bertwright.report.verdict import RESULTS

LABELLED = "labelled"
"""The folder of the labelled files that were given as rows in memory."""
PRESET = "python"
"""The folder of the text and the labelled files of a preset."""
LINK = "run"
"""The link to the run of a comparison with one system, with which the folder is a model."""
FOLDERS = ("text", "vocabulary", "shards", "runs", "tasks", LABELLED, PRESET)
TABLE = "results.csv"
FILES = (LADDER, STEPS, RESULTS, TABLE, "report.html", "log.txt", LINK)


@dataclass
class Folder:
    """The folder of a comparison, which this process alone uses."""

    path: Path
    overwrite: bool
    """Whether to begin from scratch."""
    has_begun: bool = False
    """Whether the folder holds a comparison that can be continued."""
    unexpected: Exception | None = None
    """The last error of a step that is a bug of ours; `log.txt` has the traceback of each."""


@contextlib.contextmanager
def hold(out: Path, overwrite: bool = False) -> Iterator[Folder]:
    """Create a folder, and keep other processes from using it while the block runs.

    If the block fails before the comparison began, the folder is left as it was: if it was new or
    empty, it is removed.

    Raises:
        ConfigError: the folder holds something else, or another process is comparing in it.
        BertwrightError: the disk is full or the folder is not writable.
    """
    refuse_other_folder(out, overwrite)
    is_new = not out.exists()
    with disk_errors(out), parents_made(out):
        out.mkdir(exist_ok=True)
        with held(out, "comparing in"):
            folder = Folder(out, overwrite, has_begun=any(out.iterdir()))
            try:
                yield folder
            except BaseException:
                if not folder.has_begun:
                    empty(out, but=())
                    with contextlib.suppress(OSError):  # another process has written into it
                        if is_new:
                            out.rmdir()
                raise


def refuse_other_folder(out: Path, overwrite: bool) -> None:
    """Raise ConfigError if a folder holds something that is not part of a comparison."""
    refuse_existing(out, overwrite=out.is_dir())
    known = {*FOLDERS, *FILES}
    names = {place.name for place in out.iterdir()} if out.is_dir() else set()
    begun = {LABELLED, PRESET}  # these are written before `ladder.json`
    if names - begun and LADDER not in names and not all(n.startswith(".") for n in names):
        raise ConfigError(
            f"{out} holds something that is no comparison (it has no {LADDER}), so it is left as "
            "it is: choose another --out"
        )
    if overwrite and (other := sorted(n for n in names - known if not n.startswith("."))):
        raise ConfigError(
            f"{out} holds {other[0]}, which no comparison wrote: remove it, or choose another --out"
        )


def empty(out: Path, but: Sequence[str] = (LABELLED, PRESET)) -> None:
    """Remove the files that a comparison wrote, but keep the input that is stored in its folder."""
    for name in FOLDERS:
        if name not in but:
            shutil.rmtree(out / name, ignore_errors=True)
    for name in FILES:
        (out / name).unlink(missing_ok=True)
