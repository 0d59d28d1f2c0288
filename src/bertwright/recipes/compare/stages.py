"""Store the result of each finished stage in a file, so that no work is done twice.

A stage has a name, such as `bert-1/pretrain`, and a key, which has everything that its result
depends on. If the key of a stored result differs, the stage is done again. Files are written
atomically, so a killed process leaves no incomplete result.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bertwright.atomic import atomic_file
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
        path = self.path(name)
        if not path.is_file():
            return None
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            same = kept["key"] == plain(key)
            return dict(kept["found"]) if same else None
        except (ValueError, LookupError, TypeError) as error:
            raise IntegrityError(
                f"{path} is damaged ({error}); remove it, and the same command does this part again"
            ) from error

    def keep(self, name: str, key: Any, found: Found) -> None:
        """Write the result of a stage."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path, overwrite=True) as file:
            json.dump({"key": plain(key), "found": plain(found)}, file, ensure_ascii=False)
            file.write("\n")
