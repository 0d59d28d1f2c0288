"""How a text becomes a vector: which layers, pooled how, and what is done with long texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, get_args

from bertwright.config.ranges import OutOfRange
from bertwright.errors import ConfigError

Pooling = Literal["cls", "mean", "max", "mean-max", "weighted", "first-last", "none"]
"""How the tokens of a text, [CLS] and [SEP] too, become one vector.

`cls` the first token; `mean` the mean; `max` the largest of each number; `mean-max` both side by
side; `weighted` the mean weighted by position from 1, as SGPT has it (Muennighoff 2022, section
4.1); `first-last` the mean of the first and the last layer's means (Li et al. 2020; Su et al.
2021); `none` every token keeps its own."""

Combine = Literal["concat", "sum", "mean"]
"""What becomes of several layers: side by side, added, or their mean."""


@dataclass(frozen=True)
class VectorConfig:
    """What of an encoder becomes a vector."""

    layers: tuple[int, ...] = (-2,)
    """0 is the embeddings, 1 and up the layers, negative from the top."""
    combine: Combine = "concat"
    """What becomes of several layers: side by side, added, or their mean."""
    pooling: Pooling = "mean"
    """How the tokens of a text become one vector."""
    normalize: bool = False
    """Scale every vector to length 1."""
    truncate: bool = False
    """Cut long texts, and count them; else they are read in windows."""
    max_length: int | None = None
    """Tokens of a sequence, [CLS] and [SEP] too; unset: as many as the model has positions."""

    def __post_init__(self) -> None:
        check_pooling(self.pooling)
        if self.combine not in get_args(Combine):
            raise ConfigError(f"combine is {self.combine!r}; expected concat, sum or mean")
        if not _are_numbers(self.layers):
            raise ConfigError(f"layers is {self.layers!r}; expected whole numbers, as (-2,)")
        if not self.layers:
            raise ConfigError("layers is empty; name one or more, as -2")
        if self.max_length is not None and (
            not _are_numbers((self.max_length,)) or self.max_length < 3
        ):
            raise OutOfRange(self, "max_length", "3 or more: [CLS], a token, [SEP]")

    def numbers(self, count: int) -> tuple[int, ...]:
        """The layers counted from the embeddings, for a model of `count` layers.

        Raises:
            ConfigError: one that the model has not.
        """
        if self.pooling == "first-last":
            return (1, count)
        for layer in self.layers:
            if not -count - 1 <= layer <= count:
                raise ConfigError(
                    f"no layer {layer}: this model has 0 (the embeddings) to {count}, or from the "
                    f"top -1 to {-count - 1}"
                )
        return tuple(layer % (count + 1) for layer in self.layers)

    @property
    def joined(self) -> Combine:
        """How layers are combined; `first-last` is a mean by definition."""
        return "mean" if self.pooling == "first-last" else self.combine

    @property
    def pooled(self) -> Pooling:
        """How each layer is pooled."""
        return "mean" if self.pooling == "first-last" else self.pooling

    def width(self, hidden: int, count: int) -> int:
        """Numbers of a vector, for a model of width `hidden` and `count` layers."""
        layers = len(self.numbers(count)) if self.joined == "concat" else 1
        return hidden * layers * (2 if self.pooling == "mean-max" else 1)


def _are_numbers(layers: object) -> bool:
    return isinstance(layers, Sequence) and all(
        isinstance(layer, Integral) and not isinstance(layer, bool) for layer in layers
    )


def check_pooling(pooling: str) -> None:
    """Raise ConfigError unless `pooling` is one that there is."""
    if pooling not in get_args(Pooling):
        raise ConfigError(f"pooling is {pooling!r}; expected {', '.join(get_args(Pooling))}")
