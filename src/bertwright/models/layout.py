"""How a model's folder is laid out: the keys of its `config.json` and the names of its tensors.

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
    repeats: ClassVar[Mapping[str, str]] = {}
    """Tensor -> the one that it must equal, where files may hold a tied tensor twice."""
    without_pooler: ClassVar[Collection[str]] = ()
    """Kinds of tasks: a model whose weights hold the head of one holds no pooler."""

    def read_config(self, content: Mapping[str, Any], path: Path) -> C:
        """Return the configuration in a `config.json`.

        Raises:
            DataError: a key is missing or unknown, or has a value that it cannot have.
        """
        own = {"model_type", VERSION_KEY, "pad_token_id"}
        try:
            return from_dict(self.config, {k: v for k, v in content.items() if k not in own})
        except (ConfigError, TypeError, OverflowError) as error:
            raise DataError(f"{path}: {clipped(error)}") from error

    def write_config(self, config: C, objectives: frozenset[str]) -> dict[str, Any]:
        """Return the `config.json` of a model with these pre-training heads."""
        return {"model_type": self.model_type, **to_dict(config)}

    def foreign_names(self, config: C) -> Parts | None:
        """Return all parameters by part with their names in a file; None where these are ours."""
        return None

    def current_name(self, name: str) -> str | None:
        """Return today's name of a file's tensor where older versions had another; None for a
        tensor that is not read."""
        return name

    def unknown(self, unused: Mapping[str, str], names: Collection[str]) -> list[str]:
        """Return those of a file's tensors without a part that are an error.

        Args:
            unused: current name -> the name in the file.
            names: of all tensors in the file.
        """
        return list(unused.values())

    def task_parts(self, tasks: Mapping[str, TaskConfig], pretrained: bool) -> Parts:
        """Return the parameters of task heads that are stored in the model's weights; all others
        have a file of their own.

        Args:
            tasks: of the folder.
            pretrained: whether it has pre-training heads too.
        """
        return {}

    def task_architecture(self, task: TaskConfig) -> str | None:
        """Return the class of transformers that computes the same scores for a task; None where
        there is none."""
        return None

    def task_keys(self, task: TaskConfig) -> dict[str, Any]:
        """Return the keys of `config.json` for a task head in the model's weights."""
        return {}

    def derived_task(self, content: Mapping[str, Any], config: C, path: Path) -> TaskConfig | None:
        """Return the task of a head that `config.json` alone describes; its name is its kind."""
        return None
