"""How training instances are drawn from a corpus, and how they are masked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from bertwright.errors import ConfigError


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} is {value}; expected a share between 0 and 1")


@dataclass(frozen=True)
class InstanceConfig:
    """What one training sequence is made of (BERT, section 3.1 and appendix A.2)."""

    objectives: Literal["mlm", "mlm+nsp", "mlm+sop"] = "mlm+nsp"
    """Masked LM alone, with next-sentence prediction, or with sentence-order prediction."""
    sequence_length: int = 128
    """Tokens of a sequence at most, [CLS] and [SEP] included."""
    short_probability: float = 0.1
    """Share of instances with a shorter, random target length."""
    random_next_probability: float = 0.5
    """Share of pairs whose B comes from another document (for `mlm+sop`: that are swapped)."""

    def __post_init__(self) -> None:
        if self.sequence_length < 8:
            raise ConfigError(f"sequence_length is {self.sequence_length}; expected 8 or more")
        _check_share("short_probability", self.short_probability)
        _check_share("random_next_probability", self.random_next_probability)


@dataclass(frozen=True)
class MaskingConfig:
    """Which tokens are hidden, and by what (BERT, appendix A.1)."""

    probability: float = 0.15
    """Share of tokens to predict."""
    max_predictions: int | None = None
    """Predictions of a sequence at most; unset: `probability` of its longest length, rounded up."""
    whole_word: bool = False
    """Mask all pieces of a word together."""
    mask_share: float = 0.8
    """Of the tokens to predict, the share replaced by [MASK]."""
    random_share: float = 0.1
    """Of the tokens to predict, the share replaced by a random token; the rest stay."""

    def __post_init__(self) -> None:
        _check_share("probability", self.probability)
        _check_share("mask_share + random_share", self.mask_share + self.random_share)
        if self.max_predictions is not None and self.max_predictions < 1:
            raise ConfigError(f"max_predictions is {self.max_predictions}; expected 1 or more")

    def most_predictions(self, sequence_length: int) -> int:
        """Predictions of one sequence of at most `sequence_length` tokens."""
        if self.max_predictions is not None:
            return self.max_predictions
        return max(1, math.ceil(self.probability * sequence_length))
