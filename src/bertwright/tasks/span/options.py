"""The options of extractive question answering, and its task as it is saved."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from bertwright.config.ranges import MOST_TOKENS, OutOfRange, between
from bertwright.config.task import TaskConfig, TaskOptions


@dataclass(frozen=True)
class SpanOptions(TaskOptions):
    """The options of span tasks."""

    max_answer_tokens: int = 30
    """Maximum tokens of an answer."""

    def __post_init__(self) -> None:
        between(self, 1, MOST_TOKENS, "max_answer_tokens")


@dataclass(frozen=True, kw_only=True)
class SpanTask(TaskConfig):
    """A task of extractive question answering."""

    hidden_layer: ClassVar[bool] = False

    kind: str = "span"
    options: SpanOptions = field(default_factory=SpanOptions)
    unanswerable: bool | None = False
    """Whether a question may have no answer (SQuAD 2.0); None: the model is one of transformers,
    which does not say.
    """
    null_threshold: float = 0.0
    """No answer is predicted if the null score exceeds the best span's by more than this."""

    @property
    def num_scores(self) -> int:
        return 2

    def check_saved(self) -> None:
        if not math.isfinite(self.null_threshold):
            raise OutOfRange(self, "null_threshold", "a finite number")
