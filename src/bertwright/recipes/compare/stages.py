"""Store the result of each finished stage in a file, so that no work is done twice.

A stage has a name, such as `bert-1/pretrain`, and a key, which has everything that its result
depends on. If the key of a stored result differs, the stage is done again. Files are written
atomically, so a killed process leaves no incomplete result. Results, and the files that a stage
wrote beside its result, have checksums, because later stages depend on them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertwright.atomic import atomic_file, sha256_file
from bertwright.config.values import plain
from bertwright.errors import IntegrityError

Found = dict[str, Any]


class Stages:
    """The results of finished stages, stored in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Return the file of a stage."""
        return self.folder / f"{name}.json"

    def find(self, name: str, key: Any) -> Found | None:
        """Return the result of a finished stage; None if there is no result with this key.

        Raises:
            IntegrityError: the file is damaged.
        """
        kept = self._read(name)
        return dict(kept["found"]) if kept and kept["key"] == plain(key) else None

    def verify(self, name: str) -> None:
        """Compare the files that a stage wrote with their checksums.

        Raises:
            IntegrityError: a file was changed or is missing.
        """
        for file, checksum in (self._read(name) or {"files": {}})["files"].items():
            path = self.folder.parent / file
            if not path.is_file() or sha256_file(path) != checksum:
                what = "was changed" if path.is_file() else "is missing"
                raise IntegrityError(
                    f"{path} {what} since the comparison wrote it, and its results depend on it: "
                    "--overwrite begins from scratch"
                )

    def keep(self, name: str, key: Any, found: Found, files: Sequence[Path] = ()) -> None:
        """Write the result of a stage, and the checksums of the `files` that it wrote."""
        path, root = self.path(name), self.folder.parent
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = plain(
            {
                "key": key,
                "found": found,
                "files": {each.relative_to(root).as_posix(): sha256_file(each) for each in files},
            }
        )
        with atomic_file(path, overwrite=True) as file:
            json.dump({**kept, "sha256": _checksum(kept)}, file, ensure_ascii=False)
            file.write("\n")

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.path(name)
        if not path.is_file():
            return None
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            checksum = kept.pop("sha256")
            if checksum != _checksum(kept):
                raise ValueError("its content has another checksum")
            return {"key": kept["key"], "found": dict(kept["found"]), "files": dict(kept["files"])}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise IntegrityError(
                f"{path} is damaged ({error}); remove it, and the same command does this part again"
            ) from error


def _checksum(kept: Any) -> str:
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
