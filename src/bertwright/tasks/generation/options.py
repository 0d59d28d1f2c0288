"""The options of generation, and its task as it is saved."""

from __future__ import annotations

from dataclasses import dataclass, field

from bertwright.config.ranges import OutOfRange, at_least
from bertwright.config.task import BleuTokenize, TaskConfig, TaskOptions
from bertwright.errors import ConfigError


@dataclass(frozen=True)
class GenerationOptions(TaskOptions):
    """The options of generation."""

    max_target_tokens: int | None = None
    """Maximum tokens of a target; unset: 128, but at most half of --max-length."""
    bleu_tokenize: BleuTokenize = "auto"
    """sacreBLEU's tokenizer for BLEU; auto: zh for Chinese, char for Japanese and other scripts
    without blanks, else 13a.
    """

    def __post_init__(self) -> None:
        at_least(self, 1, "max_target_tokens")


@dataclass(frozen=True, kw_only=True)
class GenerationTask(TaskConfig):
    """A task of generation."""

    kind: str = "generation"
    options: GenerationOptions = field(default_factory=GenerationOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most_target_tokens > self.max_length - 8:
            raise OutOfRange(
                self.options, "max_target_tokens", f"8 less than max_length ({self.max_length})"
            )
        if self.head.layers is not None or self.head.hidden_size:
            raise ConfigError(
                "a generation task trains the encoder and the head that predicts its tokens: "
                "leave out --transfer features, --network, --pooling and --hidden-size"
            )

    @property
    def most_target_tokens(self) -> int:
        """The most tokens of a target; the source may use the rest of `max_length`."""
        wanted = self.options.max_target_tokens
        return min(128, self.max_length // 2) if wanted is None else wanted
