"""The sizes of ELMo, and the keys of its runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertwright.config.language_models import LanguageModelRun
from bertwright.config.ranges import (
    LARGEST_SIZES,
    MOST_CELLS,
    MOST_LAYERS,
    MOST_WIDTH,
    OutOfRange,
    at_least,
    below_one,
    between,
)

MOST_FILTERS = 100
"""The maximum number of different widths of convolutions."""


@dataclass(frozen=True)
class ElmoConfig:
    """The architecture (Peters et al. 2018, section 3; Jozefowicz et al. 2016)."""

    vocab_size: int = 30000
    """V, the number of tokens that the model reads."""
    output_size: int | None = None
    """Number of tokens that the model predicts: the first, most frequent ones of the vocabulary;
    all others count as one more token. Unset: all.
    """
    max_characters_per_token: int = 50
    """C, the maximum number of ids of a token: its UTF-8 bytes and its begin and end marks.
    Longer tokens are truncated.
    """
    character_size: int = 16
    """Width of a byte's vector."""
    filters: tuple[tuple[int, int], ...] = (
        *((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512)),
        (7, 1024),
    )
    """The convolutions, as pairs of a width in bytes and a number of filters."""
    n_highway: int = 2
    """Number of highway layers over the convolutions."""
    activation: Literal["relu"] = "relu"
    """Activation of the convolutions."""
    dim: int = 4096
    """Width of the LSTM cells."""
    projection_dim: int = 512
    """P, the width to which the output of each direction is projected; less than `dim`."""
    n_layers: int = 2
    """L, the number of LSTM layers in each direction."""
    cell_clip: float = 3.0
    """Magnitude to which LSTM cells are clipped; 0: no clipping, which is faster."""
    proj_clip: float = 3.0
    """Magnitude to which the LSTMs' projections are clipped; 0: no clipping."""
    use_skip_connections: bool = True
    """Whether the input of each LSTM layer after the first is added to its output."""
    direction: Literal["both", "forward"] = "both"
    """Read in both directions, or only from left to right (TagLM's forward language model)."""
    hidden_dropout_prob: float = 0.1
    """Dropout of the inputs and outputs of the LSTMs."""
    negative_samples: int = 8192
    """Number of negative samples of the sampled softmax in training, as published; 0, or as many as
    there are predicted tokens: a softmax over all of these.
    """

    def __post_init__(self) -> None:
        most_words = LARGEST_SIZES["vocab_size"]
        between(self, 1, most_words, "vocab_size", "output_size")
        between(self, 1, MOST_WIDTH, "character_size", "projection_dim")
        between(self, 1, MOST_CELLS, "dim")
        between(self, 1, MOST_LAYERS, "n_layers")
        between(self, 0, MOST_LAYERS, "n_highway")
        between(self, 0, most_words, "negative_samples")
        between(self, 3, MOST_WIDTH, "max_characters_per_token")
        if self.projection_dim >= self.dim:
            raise OutOfRange(self, "projection_dim", f"less than dim ({self.dim})")
        at_least(self, 0, "cell_clip", "proj_clip")
        below_one(self, "hidden_dropout_prob")
        wrong = any(len(f) != 2 or not 0 < min(f) <= max(f) <= MOST_WIDTH for f in self.filters)
        if wrong or not 0 < len(self.filters) <= MOST_FILTERS:
            pairs = f"1 to {MOST_FILTERS} pairs of (width, number), each 1 to {MOST_WIDTH:,}"
            raise OutOfRange(self, "filters", pairs)
        at_least(self, max(width for width, _ in self.filters) + 2, "max_characters_per_token")


MINI_SAMPLES = 1024
"""The negative samples of `elmo-mini`, which predict best after equal minutes on a CPU
(`docs/systems/elmo.md`).
"""
_NARROW = ((1, 16), (2, 16), (3, 32), (4, 64), (5, 64))


PRESETS = {
    "elmo-mini": ElmoConfig(
        filters=_NARROW,
        n_highway=1,
        dim=256,
        projection_dim=128,
        cell_clip=0.0,
        proj_clip=0.0,
        negative_samples=MINI_SAMPLES,
    ),
    "elmo-small": ElmoConfig(n_highway=1, dim=1024, projection_dim=128),
    "elmo": ElmoConfig(),
}
"""`elmo` and `elmo-small` have the sizes of the published files with these names."""


FIXED = (
    *("vocab_size", "max_characters_per_token", "character_size", "filters", "n_highway"),
    *("activation", "use_skip_connections"),
)
"""The keys of the architecture that are no options of a run."""


@dataclass(frozen=True)
class ElmoRun(LanguageModelRun):
    """The keys of a run that trains both language models of an ELMo: forward and backward."""

    architecture: ElmoConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""
