"""Names of models on the Hugging Face hub: `hf:ORG/NAME[@REVISION]`.

Only names that begin with `hf:` are looked up there. Any other name is a folder; if there is no
such folder, the error says how to name a model of the hub.
"""

from __future__ import annotations

import re
from pathlib import Path

PREFIX = "hf:"
_ID = re.compile(r"([\w-]+/)?[\w-][\w.-]*")


def id_of(path: str | Path) -> str | None:
    """Return the id after `hf:`, or None for anything else."""
    given = str(path)
    return given.removeprefix(PREFIX) if given.startswith(PREFIX) else None


def could_be_id(path: str | Path) -> bool:
    """Return whether a path has the form of an id of the hub: `NAME` or `ORG/NAME`."""
    return _ID.fullmatch(str(path)) is not None
