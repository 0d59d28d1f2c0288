"""The configuration of vectors: which layers, pooled how, and what is done with long texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Integral
from typing import Any, Literal, get_args

from bertwright.config.ranges import OutOfRange
from bertwright.errors import ConfigError

Pooling = Literal[
    "cls", "mean", "max", "mean-max", "mean-sqrt", "weighted", "last", "first-last", "none"
]
"""How the tokens of a text, including [CLS] and [SEP], become one vector.

`cls` is the first token, `last` the last; `mean` the mean; `max` the maximum of each dimension;
`mean-max` both concatenated; `mean-sqrt` the sum divided by the square root of the number of
tokens; `weighted` the mean weighted by position from 1, as in SGPT (Muennighoff 2022, section 4.1);
`first-last` the mean of the first and the last layer's means (Li et al. 2020; Su et al. 2021); with
`none` every token keeps its own vector. All but the last two may be joined by `+`, which
concatenates them.
"""

BackendName = Literal["torch", "onnx", "openvino"]
"""The library that computes layers."""

VectorPrecision = Literal["fp32", "bf16", "int8"]
"""The number format of the computation; other formats are first compared with float32."""

SimilarityFunction = Literal["cosine", "dot", "euclidean", "manhattan"]
"""How two vectors are compared, by the names of sentence-transformers; distances are negated, so
that a higher score always means more similar vectors."""

OF_QUERIES, OF_DOCUMENTS = ("query",), ("document", "passage", "corpus")
"""The names that folders use for the prompts of queries, and of the texts that are searched."""

_ALONE = {"first-last", "none"}
_SEVERAL = {"mean-max": ("mean", "max"), "first-last": ("mean",)}


@dataclass(frozen=True)
class VectorConfig:
    """How the vector of a text is made from the vectors of an encoder."""

    layers: tuple[int, ...]
    """Layers to use: 0 is the embeddings, 1 and up the layers; negative numbers count from the
    top. The vectors of several are concatenated.
    """
    pooling: str = "mean"
    """How the tokens of a text become one vector: a `Pooling`, or several, such as `cls+mean`."""
    normalize: bool = False
    """Scale every vector to length 1."""
    truncate: bool = False
    """Truncate long texts, and count them, instead of encoding them in windows."""
    max_length: int | None = None
    """Maximum tokens of a sequence, including [CLS] and [SEP]; unset: what the model allows."""
    prompt: str = ""
    """Text put before every text, or before the first of a pair; its tokens count as tokens of the
    text.
    """
    dense: int = 0
    """Output width of the folder's dense layers; 0: they are not applied."""
    dimensions: int | None = None
    """Number of leading dimensions of a vector to keep; unset: all."""

    def __post_init__(self) -> None:
        poolings_of(self.pooling)
        if not _are_numbers(self.layers):
            raise ConfigError(f"layers is {self.layers!r}; expected whole numbers, as (-2,)")
        if not self.layers:
            raise ConfigError("layers is empty; name one or more, as -2")
        if self.max_length is not None and (
            not _are_numbers((self.max_length,)) or self.max_length < 3
        ):
            raise OutOfRange(self, "max_length", "3 or more: [CLS], a token, [SEP]")
        if not isinstance(self.prompt, str):
            raise ConfigError(f"the prompt is {self.prompt!r}; expected text")
        if self.dimensions is not None and (
            not _are_numbers((self.dimensions,)) or self.dimensions < 1
        ):
            raise OutOfRange(self, "dimensions", "1 or more")

    def over(
        self,
        layers: Sequence[int] | None = None,
        pooling: str | None = None,
        **others: Any,
    ) -> VectorConfig:
        """Return the configuration, overridden by the arguments that are not None.

        Dense layers and dimensions were trained on the configured layers and pooling. If these
        change, they are dropped, unless `others` names them.
        """
        given = {"layers": layers, "pooling": pooling, **others}
        given = {name: value for name, value in given.items() if value is not None}
        if not given:
            return self
        trained_on = ("layers", "pooling")
        if any(given.get(name, getattr(self, name)) != getattr(self, name) for name in trained_on):
            given = {"dense": 0, "dimensions": None, **given}
        return replace(self, **given)

    def numbers(self, count: int) -> tuple[int, ...]:
        """Return the layers as numbers from the embeddings up, for a model of `count` layers.

        Raises:
            ConfigError: the model does not have one of the layers.
        """
        if self.pooling == "first-last":
            return (min(1, count), count)
        for layer in self.layers:
            if not -count - 1 <= layer <= count:
                raise ConfigError(
                    f"no layer {layer}: this model has 0 (the embeddings) to {count}, or from the "
                    f"top -1 to {-count - 1}"
                )
        return tuple(layer % (count + 1) for layer in self.layers)

    @property
    def averages_layers(self) -> bool:
        """Whether layers are averaged, as `first-last` defines it, instead of concatenated."""
        return self.pooling == "first-last"

    @property
    def pooled(self) -> tuple[str, ...]:
        """The poolings of each layer, which are concatenated."""
        return poolings_of(self.pooling)

    def pooled_width(self, widths: Sequence[int]) -> int:
        """Return the width of a pooled vector, given the widths of a model's layers from the
        embeddings up.

        Raises:
            ConfigError: layers of different widths are to be averaged.
        """
        chosen = [widths[number] for number in self.numbers(len(widths) - 1)]
        if not self.averages_layers:
            return sum(chosen) * len(self.pooled)
        if len(set(chosen)) > 1:
            listed = ", ".join(map(str, chosen))
            raise ConfigError(
                f"the layers are {listed} wide, and first-last averages them: choose another "
                "pooling, as mean"
            )
        return chosen[0] * len(self.pooled)

    def width(self, widths: Sequence[int]) -> int:
        """Return the width of a vector, given the widths of a model's layers from the embeddings
        up.

        Raises:
            ConfigError: there are fewer dimensions than are to be kept, or layers of different
                widths are to be averaged.
        """
        whole = self.dense or self.pooled_width(widths)
        if self.dimensions is not None and self.dimensions > whole:
            raise OutOfRange(self, "dimensions", f"1 to {whole}, the numbers of a vector")
        return self.dimensions or whole


def _are_numbers(layers: object) -> bool:
    return isinstance(layers, Sequence) and all(
        isinstance(layer, Integral) and not isinstance(layer, bool) for layer in layers
    )


@lru_cache
def poolings_of(pooling: str) -> tuple[str, ...]:
    """Return the poolings that are concatenated.

    Raises:
        ConfigError: a pooling does not exist, or cannot be combined with others.
    """
    parts = tuple(pooling.split("+")) if isinstance(pooling, str) else (pooling,)
    unknown = [part for part in parts if part not in get_args(Pooling)]
    if unknown or (len(parts) > 1 and not _ALONE.isdisjoint(parts)):
        raise ConfigError(
            f"pooling is {pooling!r}; expected {', '.join(get_args(Pooling))}, or several of all "
            "but the last two, as cls+mean"
        )
    return tuple(each for part in parts for each in _SEVERAL.get(part, (part,)))


def usual_prompt(prompts: Mapping[str, str], names: Iterable[str]) -> str | None:
    """Return a folder's prompt for the first of these names (`OF_QUERIES`, `OF_DOCUMENTS`) that it
    has.
    """
    return next((prompts[name] for name in names if name in prompts), None)


def choose_prompt(
    prompts: Mapping[str, str], prompt: str | None = None, name: str | None = None
) -> str | None:
    """Return the text to put before every text; None if neither it nor a name is given.

    Args:
        prompts: the folder's prompts by name.
        prompt: the text itself; "" for no prompt.
        name: the name of one of the folder's prompts.

    Raises:
        ConfigError: both are given, or the folder has no such prompt.
    """
    if name is None:
        return prompt
    if prompt is not None:
        raise ConfigError("--prompt and --prompt-name are both given; leave one of them out")
    if name not in prompts:
        there = f"it has {', '.join(map(repr, prompts))}" if prompts else "it has none"
        raise ConfigError(
            f"no prompt {name!r} in the model's folder: {there}; name one of them, or give the "
            "text itself as the prompt"
        )
    return prompts[name]
