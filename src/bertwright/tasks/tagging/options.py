"""The options of tagging, and its task as it is saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from bertwright.config.task import Network, Scheme, TaskConfig, TaskOptions
from bertwright.errors import ConfigError


@dataclass(frozen=True)
class TaggingOptions(TaskOptions):
    """The options of tagging."""

    context: Literal["sentence", "document"] = "sentence"
    """Encode each sentence alone, or with its neighbours in the document."""
    crf: bool = False
    """Predict the tags of a sentence jointly, with a conditional random field."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: weight tags in the loss by the inverse of their frequency."""

    def __post_init__(self) -> None:
        if self.crf and self.class_weights == "balanced":
            raise ConfigError(
                "a crf scores the tags of a sentence together, so a tag has no weight of its own: "
                "leave out class_weights or crf"
            )


@dataclass(frozen=True, kw_only=True)
class TaggingTask(TaskConfig):
    """A task of tagging."""

    needs_labels: ClassVar[bool] = True
    networks: ClassVar[tuple[Network, ...]] = ("linear", "bilstm", "taglm")
    hidden_layer: ClassVar[bool] = False

    kind: str = "tagging"
    options: TaggingOptions = field(default_factory=TaggingOptions)
    scheme: Scheme = "none"
    """How tags mark entities."""

    @property
    def decodes_jointly(self) -> bool:
        return self.options.crf

    @property
    def reads_documents(self) -> bool:
        return self.options.context == "document"

    def of_weights(self) -> tuple[object, ...]:
        return (self.options.crf,)

    def reading(self) -> dict[str, Any]:
        return {"as_scheme": self.scheme}
