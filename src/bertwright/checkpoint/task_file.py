"""`task.json`: what the heads of a fine-tuned model are for, beside the model.

```
{"format": 1, "tasks": {"sentiment": {"kind": "classification", "labels": ["bad", "good"], ...}}}
```

A task is a `TaskConfig` as a mapping. Like `config.json` it may come from anywhere: the schema is
closed, sizes have limits, and it is judged before memory is taken for any head.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from bertwright.checkpoint.huggingface.model import read_json, short
from bertwright.checkpoint.huggingface.names import PARTS
from bertwright.config.task import TaskConfig
from bertwright.config.values import from_dict, to_dict
from bertwright.errors import ConfigError, DataError

TASKS = "task.json"

_FORMAT = 1
_MOST_TASKS = 1_000
_WIDEST = 65_536
_LONGEST_MESSAGE = 400


def check_names(names: Iterable[str]) -> None:
    """Raise ConfigError unless tasks may have these names: they become parts of tensors' names."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name):
            raise ConfigError(
                f"a task is named {short(name)}; expected letters, digits, - and _, 64 at most"
            )
        if name in PARTS or hasattr(nn.ModuleDict, name) or name == "training":
            raise ConfigError(f"no task can be named {name!r}: choose another name")


def check_task(task: TaskConfig, positions: int | None) -> None:
    """Raise ConfigError if a task needs what an encoder of so many positions cannot give."""
    if positions is not None and task.max_length > positions:
        raise ConfigError(
            f"max_length is {task.max_length}; this model has positions for {positions}"
        )
    if task.head.network_size > _WIDEST:
        raise ConfigError(f"network_size is {task.head.network_size}; expected {_WIDEST} or less")
    if not math.isfinite(task.null_threshold):
        raise ConfigError(f"null_threshold is {task.null_threshold}; expected a finite number")


def write_tasks(folder: Path, tasks: Mapping[str, TaskConfig]) -> None:
    """Write `task.json`.

    Raises:
        ConfigError: a task's name cannot be used.
    """
    check_names(tasks)
    content = {"format": _FORMAT, "tasks": {name: to_dict(task) for name, task in tasks.items()}}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / TASKS).write_text(text + "\n", encoding="utf-8")


def read_tasks(folder: Path, positions: int) -> dict[str, TaskConfig] | None:
    """The tasks of a folder; None if it has no `task.json`.

    Args:
        folder: of a checkpoint.
        positions: of its BERT.

    Raises:
        DataError: not JSON, a key that does not exist, a value out of bounds.
    """
    path = folder / TASKS
    if not path.is_file():
        return None
    content = read_json(path)
    form = content.get("format")
    if type(form) is not int or form != _FORMAT:
        raise DataError(
            f"'format' in {path} is {short(form)}; this Bertwright reads {_FORMAT}: "
            "a later version may have written it"
        )
    given: Any = content.get("tasks")
    if content.keys() != {"format", "tasks"} or not isinstance(given, dict) or not given:
        raise DataError(f"{path} holds {short(list(content))}; expected format and tasks, by name")
    if len(given) > _MOST_TASKS:
        raise DataError(f"{path} tells of {len(given)} tasks; expected {_MOST_TASKS} at most")
    try:
        check_names(given)
        tasks = {name: from_dict(TaskConfig, task, f"task {name}") for name, task in given.items()}
        for task in tasks.values():
            check_task(task, positions)
    except (ConfigError, OverflowError) as error:
        raise DataError(f"{path}: {_cut(str(error))}") from error
    return tasks


def _cut(message: str) -> str:
    """A message that quotes a value of unknown length."""
    return message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "..."
