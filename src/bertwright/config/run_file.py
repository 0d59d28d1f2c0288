"""Read the configuration file of a training run, including those of earlier versions.

Earlier versions used other names for some keys (`values.former_keys`). They also wrote "none" for
an unset `architecture.attention`, although "none" is one of its choices. Such a file is recognized
by its former keys and by a complete `architecture`, which only saved files have. The meaning of its
"none" is read from the model that was saved with it; without one, the key was unset.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, get_type_hints

from bertwright.config import values
from bertwright.config.run import RunConfig


def read_run_file(path: str | Path, run: type[RunConfig]) -> dict[str, Any]:
    """Return the keys of a TOML file for runs of a class, with their current names.

    Raises:
        ConfigError: the file cannot be read, or has a key under both its former and its current
            name.
    """
    written = values.read_toml(path)
    mapping: dict[str, Any] = values.with_present_names(run, written, str(path))
    changes = get_type_hints(run)["architecture"]
    hints = get_type_hints(changes)
    given = mapping.get("architecture")
    earlier = values.flatten(written).keys() & values.former_keys(run).keys()
    if not earlier or not isinstance(given, dict):
        return mapping
    if given.keys() != {each.name for each in dataclasses.fields(changes)}:
        return mapping
    for name, value in list(given.items()):
        ambiguous = value == "none" and values.none_is_a_choice(hints[name])
        if ambiguous and not _was_chosen(Path(path).parent, name):
            del given[name]
    return mapping


def _was_chosen(folder: Path, name: str) -> bool:
    """Return whether a model of the run in a folder was made with "none" for a key."""
    for path in folder.glob("checkpoints/*/config.json"):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # another checkpoint may be intact
            continue
        if isinstance(content, dict):
            return bool(content.get(name) == "none")
    return False
