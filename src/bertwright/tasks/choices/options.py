"""The options of multiple choice, and its task as it is saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bertwright.config.task import TaskConfig, TaskOptions


@dataclass(frozen=True)
class MultipleChoiceOptions(TaskOptions):
    """The options of multiple choice."""

    merge: Literal["mean", "max"] = "mean"
    """How the scores of the windows of a long choice are combined."""


@dataclass(frozen=True, kw_only=True)
class MultipleChoiceTask(TaskConfig):
    """A task of multiple choice."""

    kind: str = "multiple-choice"
    options: MultipleChoiceOptions = field(default_factory=MultipleChoiceOptions)
