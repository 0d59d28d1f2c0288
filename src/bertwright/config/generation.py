"""The configuration of generating text: greedily, by sampling, or by beam search."""

from __future__ import annotations

from dataclasses import dataclass

from bertwright.config.ranges import MOST_TOKENS, OutOfRange, above, at_least, between, seed
from bertwright.errors import ConfigError

MOST_BEAMS = 1_024


@dataclass(frozen=True)
class GenerationConfig:
    """How a prompt is continued; the names are those of transformers."""

    max_new_tokens: int = 128
    """Maximum tokens to generate after a prompt."""
    sample: bool = False
    """Sample each token from the model's distribution, instead of taking the most probable one."""
    temperature: float = 1.0
    """Divide logits by this before sampling; below 1, probable tokens become more probable."""
    top_k: int | None = None
    """Sample only from the k most probable tokens; unset: from all."""
    top_p: float = 1.0
    """Sample from the smallest set of most probable tokens whose probabilities sum to this
    (nucleus).
    """
    beam: int = 1
    """Number of beams of beam search; 1: no beam search."""
    length_penalty: float = 1.0
    """Beam search: a text's log-probability is divided by its length to this power; higher values
    favour longer texts.
    """
    repetition_penalty: float = 1.0
    """Penalty on tokens that occur in the prompt or the generated text; above 1, they become less
    probable; 1: no penalty.
    """
    stop: tuple[str, ...] = ()
    """Strings that end a text; it stops before the first of them. On the command line `\\n` is a
    line end and `\\t` a tab.
    """
    num: int = 1
    """Number of texts for each prompt: samples, or the best beams."""
    seed: int = 0
    """Seed of sampling; a prompt's texts do not depend on the other prompts."""

    def __post_init__(self) -> None:
        between(self, 1, MOST_BEAMS, "beam")
        between(self, 1, MOST_TOKENS, "max_new_tokens")
        at_least(self, 1, "top_k", "num")
        above(self, 0, "temperature", "top_p", "repetition_penalty")
        at_least(self, -100, "length_penalty")
        seed(self)
        if self.top_p > 1:
            raise OutOfRange(self, "top_p", "above 0 and up to 1")
        if not all(self.stop):
            raise OutOfRange(self, "stop", "strings that are not empty")
        given = [
            name
            for name, default in (("temperature", 1.0), ("top_k", None), ("top_p", 1.0))
            if getattr(self, name) != default
        ]
        if given and not self.sample:
            raise ConfigError(f"{given[0]} is for sampling: add --sample (sample=True)")
        others = [name for name in ("sample", "stop") if getattr(self, name)]
        others += ["repetition_penalty"] if self.repetition_penalty != 1 else []
        if others and self.beam > 1:
            raise ConfigError(f"beam search or {others[0]}, not both: leave out one of them")
        if not self.sample and self.num > self.beam:
            raise ConfigError(
                f"num is {self.num}, but a beam of {self.beam} gives {self.beam}: add --sample, "
                f"or --beam {self.num}"
            )


@dataclass(frozen=True)
class TranslationConfig:
    """How a text is translated; the defaults are those of Vaswani et al. 2017."""

    beam: int = 4
    """Number of beams of beam search; 1: greedy."""
    length_penalty: float = 0.6
    """A translation's log-probability is divided by ((5 + length) / 6) to this power; higher values
    favour longer translations.
    """
    max_length: int | None = None
    """Maximum tokens of a translation; unset: 50 more than the source has."""

    def __post_init__(self) -> None:
        between(self, 1, MOST_BEAMS, "beam")
        between(self, 1, MOST_TOKENS, "max_length")
        at_least(self, -100, "length_penalty")
