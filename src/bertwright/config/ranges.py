"""Check the ranges of numbers in configurations, with errors that name the whole key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from bertwright.errors import ConfigError

LARGEST = 3.4e38
"""The largest float32, the type of weights and optimizer states; a larger number would be
infinite.
"""
LARGEST_SEED = 2**32 - 1
LARGEST_SIZES = {
    "vocab_size": 4_000_000,
    "hidden_size": 65_536,
    "num_hidden_layers": 1_000,
    "num_attention_heads": 1_024,
    "intermediate_size": 262_144,
    "max_position_embeddings": 1_000_000,
    "type_vocab_size": 1_024,
}
"""The largest value of each size of a Transformer."""
MOST_LAYERS = 1_000
"""The most layers, hops or highway layers."""
MOST_WIDTH = 65_536
"""The largest width of a vector, or number of filters of one width."""
MOST_CELLS = 262_144
"""The most cells of a layer whose output is projected."""
MOST_TOKENS = 1_000_000
"""The most tokens of a sequence."""
MOST_WORDS = 100_000_000
"""The most rows of a table of word vectors."""


class OutOfRange(ConfigError):
    """A value outside its range. A section does not know the path of its keys; `values.from_dict`
    adds it.
    """

    def __init__(self, section: object, name: str, expected: str) -> None:
        self.key = name
        self.range = f"is {getattr(section, name)!r}; expected {expected}"
        super().__init__(f"{name} {self.range}")

    def inside(self, prefix: str) -> Self:
        """Return this error for a section whose keys have a prefix, such as `optimizer.`."""
        self.key = prefix + self.key
        self.args = (f"{self.key} {self.range}",)
        return self


def at_least(section: object, least: float, *names: str) -> None:
    """Raise OutOfRange if a field of `section` is below `least` or not finite; None is allowed."""
    _check(section, names, lambda x: least <= x <= LARGEST, f"{least} or more")


def between(section: object, least: int, most: int, *names: str) -> None:
    """Raise OutOfRange if a field is not a number from `least` to `most`; None is allowed."""
    for name in names:
        value = getattr(section, name)
        if value is not None and not least <= value <= most:
            raise OutOfRange(section, name, f"a number from {least:,} to {most:,}")


def above(section: object, least: float, *names: str) -> None:
    """Raise OutOfRange if a field is not above `least`, or not finite; None is allowed."""
    _check(section, names, lambda x: least < x <= LARGEST, f"more than {least}")


def fraction(section: object, *names: str) -> None:
    """Raise OutOfRange if a field is not from 0 to 1."""
    _check(section, names, lambda x: 0 <= x <= 1, "a fraction from 0 to 1")


def below_one(section: object, *names: str) -> None:
    """Raise OutOfRange if a field is not from 0 to less than 1."""
    _check(section, names, lambda x: 0 <= x < 1, "a fraction from 0 to less than 1")


def seed(section: object, name: str = "seed") -> None:
    """Raise OutOfRange if a seed is not one that every generator accepts."""
    _check(section, (name,), lambda x: 0 <= x <= LARGEST_SEED, f"0 to {LARGEST_SEED}")


def _check(
    section: object, names: tuple[str, ...], fits: Callable[[float], bool], expected: str
) -> None:
    for name in names:
        value = getattr(section, name)
        if value is not None and not fits(value):
            end = f", up to {LARGEST:g}" if value > LARGEST else ""
            raise OutOfRange(section, name, expected + end)


def transformer(section: object) -> None:
    """Raise OutOfRange or ConfigError if a size or dropout of a Transformer is invalid. Only the
    fields that `section` has are checked.
    """
    for name, most in LARGEST_SIZES.items():
        value = getattr(section, name, 1)
        if name == "intermediate_size" and value is None:  # GPT's default: 4 H
            continue
        least = 0 if name == "type_vocab_size" else 1  # a BERT may have no segments
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise OutOfRange(section, name, f"a whole number from {least} to {most}")
    below_one(section, "hidden_dropout_prob", "attention_probs_dropout_prob")
    for name in ("initializer_range", "layer_norm_eps"):
        if not 0 <= getattr(section, name, 0) <= 1:
            raise OutOfRange(section, name, "a number from 0 to 1")
    width, heads = (getattr(section, name) for name in ("hidden_size", "num_attention_heads"))
    if width % heads:
        raise ConfigError(f"hidden_size {width} is not a multiple of num_attention_heads {heads}")
