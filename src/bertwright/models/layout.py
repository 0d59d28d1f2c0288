"""The layout of a model's folder: the keys of its `config.json` and the names of its tensors.

The plain layout is our own: `config.json` has the fields of the model's configuration, and each
tensor has the name of its parameter. A model that another library stores too has a subclass in its
own folder (`models/bert/huggingface.py`, `models/gpt/huggingface.py`, `models/bert/tensorflow.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from bertwright.config.task import TaskConfig
from bertwright.config.values import from_dict, to_dict
from bertwright.errors import ConfigError, DataError
from bertwright.storage.model_folder import VERSION_KEY
from bertwright.storage.tensor_names import Parts, clipped

C = TypeVar("C")


@dataclass(frozen=True)
class Layout(Generic[C]):
    """The layout of the models of one `model_type`, with our own names."""

    model_type: str
    """The `model_type` in `config.json`."""
    config: type[C]
    """The class of the model's configuration, a dataclass."""
    shared: ClassVar[Collection[str]] = ()
    """The names of tensors that every head has with its own values; a file holds those of one
    head."""
    without_pooler: ClassVar[Collection[str]] = ()
    """Kinds of tasks whose heads, when stored in the model's weights, exclude a pooler."""

    @property
    def repeats(self) -> Mapping[str, str]:
        """Maps a tensor to the one that it must equal, where files may hold a tied one twice."""
        return {}

    def read_config(self, content: Mapping[str, Any], path: Path) -> C:
        """Return the configuration in a `config.json`."""
        of_folder = {"model_type", VERSION_KEY, "pad_token_id"}
        try:
            return from_dict(self.config, {k: v for k, v in content.items() if k not in of_folder})
        except (ConfigError, TypeError, OverflowError) as error:
            raise DataError(f"{path}: {clipped(error)}") from error

    def write_config(self, config: C, objectives: frozenset[str]) -> dict[str, Any]:
        """Return the `config.json` of a model with these pre-training heads."""
        return {"model_type": self.model_type, **to_dict(config)}

    def foreign_names(self, config: C) -> Parts | None:
        """Return all parameters by part with their names in a file; None if the names are ours."""
        return None

    def current_name(self, name: str) -> str | None:
        """Return the current name of a tensor, which older versions may have named differently;
        None for a tensor that is not read.
        """
        return name

    def begins_as(self, name: str) -> str | None:
        """Return the name of the tensor from which a parameter of a new head or pooler starts, if
        the file has this tensor; None: the parameter is initialized as usual.
        """
        return None

    def unknown(self, unused: Mapping[str, str], names: Collection[str]) -> list[str]:
        """Return the names of those tensors that belong to no part and are an error.

        Args:
            unused: maps the current names of the tensors that belong to no part to their names in
                the file.
            names: the names of all tensors in the file.
        """
        return list(unused.values())

    def task_parts(
        self, tasks: Mapping[str, TaskConfig], pretrained: bool, pooled: bool = True
    ) -> Parts:
        """Return the parameters of those task heads that are stored in the model's weights. All
        other heads have files of their own.

        Args:
            tasks: the tasks of the folder.
            pretrained: whether the folder has pre-training heads too.
            pooled: whether the encoder has a pooler.
        """
        return {}

    def task_architecture(self, task: TaskConfig, pooled: bool = True) -> str | None:
        """Return the class of transformers that computes the same scores for a task, for an encoder
        with or without a pooler; None if there is none.
        """
        return None

    def task_keys(self, task: TaskConfig) -> dict[str, Any]:
        """Return the keys of `config.json` for a task head in the model's weights."""
        return {}

    def derived_task(
        self, content: Mapping[str, Any], config: C, path: Path
    ) -> dict[str, Any] | None:
        """Return the task of a head that only `config.json` describes, and which is named after its
        kind, with the keys of `task.json`; None if there is none."""
        return None
