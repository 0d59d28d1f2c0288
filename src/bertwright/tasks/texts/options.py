"""The options of classification and of regression, and their tasks as they are saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from bertwright.config.task import TaskConfig, TaskOptions


@dataclass(frozen=True)
class RegressionOptions(TaskOptions):
    """The options of regression."""

    both_orders: bool = False
    """Read a pair in both orders and average the scores, for symmetric relations such as similarity
    (GPT).
    """
    merge: Literal["mean", "max"] = "mean"
    """How the scores of a long text's windows are combined."""


@dataclass(frozen=True)
class ClassificationOptions(RegressionOptions):
    """The options of classification."""

    multi_label: bool = False
    """A text may have several labels: a list, or names joined by commas, semicolons, | or #, or a 0
    or 1 for each class in a list or in columns.
    """
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: weight labels in the loss by the inverse of their frequency; combine it with
    --metric macro_f1, since accuracy favours frequent labels."""

    @property
    def several_label_columns(self) -> bool:
        return self.multi_label

    def reading(self) -> dict[str, Any]:
        return {"multi_label": self.multi_label}


@dataclass(frozen=True, kw_only=True)
class ClassificationTask(TaskConfig):
    """A task of classification."""

    needs_labels: ClassVar[bool] = True
    compares_pairs: ClassVar[bool] = True

    kind: str = "classification"
    options: ClassificationOptions = field(default_factory=ClassificationOptions)

    @property
    def problem_type(self) -> str:
        several = "multi" if self.options.multi_label else "single"
        return f"{several}_label_classification"

    def of_weights(self) -> tuple[object, ...]:
        return (self.options.multi_label,)

    def reading(self) -> dict[str, Any]:
        return self.options.reading()


@dataclass(frozen=True, kw_only=True)
class RegressionTask(TaskConfig):
    """A task of regression."""

    compares_pairs: ClassVar[bool] = True

    kind: str = "regression"
    options: RegressionOptions = field(default_factory=RegressionOptions)
    activation: Literal["identity", "sigmoid"] = "identity"
    """Function that is applied to the number that is predicted; sigmoid: the model is a
    cross-encoder of sentence-transformers.
    """

    @property
    def problem_type(self) -> str | None:
        return "regression" if self.activation == "identity" else None
