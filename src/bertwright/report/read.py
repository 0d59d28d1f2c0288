"""Read the files of a run's folder as plain values, for the page of the run.

The files are `config.toml`, `environment.json` and `metrics.jsonl`; for a pre-training run also
`examples.json`, and for a fine-tuned run `results.json`. Only what cannot be read is called
damaged. Values are not checked, so an error while a page is made is a bug.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertwright.config import values
from bertwright.errors import ConfigError, DataError
from bertwright.report.numbers import number
from bertwright.report.verdict import RESULTS
from bertwright.rows.open import nearest_name
from bertwright.train.log import METRICS, read_records

LADDER = "ladder.json"
"""The file that marks the folder of a comparison."""
_FILES = ("environment.json", "examples.json", RESULTS)
"""The files that follow the configuration in the fields of `RunFiles`, in their order."""


@dataclass(frozen=True)
class RunFiles:
    """The files of a run's folder."""

    folder: Path
    records: list[dict[str, Any]]
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    examples: dict[str, Any] = field(default_factory=dict)
    """`examples.json`, which says what the model has learned. All keys are optional: `step`,
    `verdict` (`answer`, `sentence`), `baselines` (levels of charts, by key of a record), `sections`
    (see `report/sections.py`), `curves_note`.
    """
    results: dict[str, Any] = field(default_factory=dict)
    """`results.json` of a fine-tuned run."""

    @property
    def name(self) -> str:
        """The name of the run: that of its folder, for a quickstart that of the folder that
        contains `run`, and in a comparison that of the system.
        """
        folder = Path(os.path.abspath(self.folder))  # `run` of a quickstart is a link
        if folder.name == "run":
            return folder.parent.name
        for depth, system in (2, folder.parent), (3, folder.parent.parent):
            if len(folder.parents) > depth and (folder.parents[depth] / LADDER).is_file():
                return f"{system.name}, {folder.name.replace('-', ' ')}"
        return folder.name

    def split(self, name: str) -> list[dict[str, Any]]:
        """Return the records of the split `train` or `dev`, in the order of steps."""
        return [record for record in self.records if record.get("split") == name]


def is_run(folder: Path) -> bool:
    """Return whether a folder has the metrics or the results of a run."""
    return (folder / METRICS).is_file() or (folder / RESULTS).is_file()


def read_run(folder: Path | str) -> RunFiles:
    """Read a run's folder.

    Raises:
        DataError: the folder is not a run, nothing is logged yet, or a file is damaged.
    """
    folder = Path(folder)
    nested = folder / "run"
    if not is_run(folder) and (nested / METRICS).is_file():
        folder = nested  # the folder of a quickstart
    path = folder / METRICS
    if not is_run(folder):
        raise _no_run(folder)
    config = _read_config(folder / "config.toml")
    records = read_records(path) if path.is_file() else []
    if not (folder / RESULTS).is_file() and not any(
        number(r.get("loss")) is not None for r in records
    ):
        raise DataError(
            f"{path} holds no measurements yet: a line is written every few seconds and at the "
            "end; let the run continue and write the page again"
        )
    objects = (read_object(folder / name) for name in _FILES)
    return RunFiles(folder, records, config, *objects)


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty if there is no such file.

    Raises:
        DataError: the file is damaged.
    """
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error}); remove it or write it again") from error
    if not isinstance(value, dict):
        raise DataError(
            f"{path} is damaged: it holds {str(value)[:40]}, expected an object; remove it or "
            "write it again"
        )
    return value


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _no_run(folder: Path) -> DataError:
    if not folder.is_dir():
        is_file = folder.is_file()
        reason = "it is a file" if is_file else f"no such folder{nearest_name(folder)}"
    elif runs := sorted(each.name for each in folder.iterdir() if is_run(each)):
        return DataError(
            f"{folder} is no run, but holds {', '.join(runs[:20])}; name one of them: "
            f"bertwright report {folder / runs[0]}"
        )
    else:
        reason = f"it has no {METRICS}"
    return DataError(
        f"{folder} is no run ({reason}); name the --out of a run, as written by bertwright "
        "pretrain, finetune, glue or quickstart"
    )


def _read_config(path: Path) -> dict[str, Any]:
    """Return the configuration of a run; empty if there is none."""
    try:
        return values.read_toml(path) if path.is_file() else {}
    except ConfigError as error:
        raise DataError(f"{error}; restore it, or remove it for a page without it") from error
