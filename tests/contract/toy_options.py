"""The options of the toy kind of task, and its task as it is saved."""

from __future__ import annotations

from dataclasses import dataclass, field

from bertwright.config.ranges import above
from bertwright.config.task import TaskConfig, TaskOptions


@dataclass(frozen=True)
class ToyOptions(TaskOptions):
    """The options of counts."""

    most: float = 1000.0
    """The largest count that is predicted."""

    def __post_init__(self) -> None:
        above(self, 0, "most")


@dataclass(frozen=True, kw_only=True)
class ToyTask(TaskConfig):
    """A task of counts."""

    kind: str = "toy-count"
    options: ToyOptions = field(default_factory=ToyOptions)
