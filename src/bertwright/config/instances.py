"""How training instances are drawn from a corpus, and how they are masked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from bertwright.config.ranges import OutOfRange, above, at_least, share


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
        at_least(self, 8, "sequence_length")
        share(self, "short_probability", "random_next_probability")


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
        above(self, 0, "probability")
        share(self, "probability", "mask_share", "random_share")
        if self.mask_share + self.random_share > 1 + 1e-9:  # 0.7 + 0.3 as computers add
            rest = f"{1 - self.mask_share:g} or less, as mask_share is {self.mask_share}"
            raise OutOfRange(self, "random_share", rest)
        at_least(self, 1, "max_predictions")

    def most_predictions(self, sequence_length: int) -> int:
        """Predictions of one sequence of at most `sequence_length` tokens."""
        if self.max_predictions is not None:
            return self.max_predictions
        return max(1, math.ceil(self.probability * sequence_length))
