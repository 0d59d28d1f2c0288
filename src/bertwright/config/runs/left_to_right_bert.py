"""A run of a left-to-right BERT: BERT's sizes, and the windows of a language model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from bertwright.config.bert import PRESETS, LeftToRightBertConfig
from bertwright.config.runs.bert import ArchitectureConfig
from bertwright.config.runs.gpt import GptRun


@dataclass(frozen=True)
class LeftToRightBertRun(GptRun):
    """A run over token streams."""

    presets = {
        f"{name}-ltr": LeftToRightBertConfig(**asdict(config)) for name, config in PRESETS.items()
    }
    default_model = "bert-mini-ltr"
    format = "bertwright.checkpoint.huggingface.bert:LEFT_TO_RIGHT_BERT"

    sequence_length: int = 128
    """Maximum tokens of a window, the tokens for begin and end included."""
    architecture: ArchitectureConfig = field(default_factory=ArchitectureConfig)  # type: ignore[assignment]
    """Changes to the model."""
