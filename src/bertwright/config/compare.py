"""The configuration of a comparison: which systems, how long each is trained, how each is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertwright.config.ranges import LARGEST_SIZES, OutOfRange, above, at_least, between, seed
from bertwright.errors import ConfigError


@dataclass(frozen=True)
class CompareConfig:
    """The configuration of a comparison, without its corpus and its labelled files."""

    out: str
    """Folder to write the comparison to; the same command resumes an interrupted one."""
    systems: tuple[str, ...] = ()
    """Systems to compare, such as bert gpt2 (or bert,gpt2); unset: all that the text and the task
    allow."""
    parallel: tuple[str, ...] = ()
    """Two files of parallel text, SOURCE TARGET: line i of one translates line i of the other. For
    seq2seq, the Transformer and CoVe."""
    minutes: float | None = None
    """Minutes of pre-training per system; unset: 3."""
    tokens: int | None = None
    """Number of tokens that each system reads in pre-training, instead of minutes."""
    task_minutes: float | None = None
    """Maximum minutes of one fine-tuning of the systems that are named; unset: those that a system
    already has in this folder, else 1."""
    fractions: tuple[float, ...] = (1.0,)
    """Fractions of the labelled training examples to fine-tune on, such as 0.1 1."""
    seeds: int = 1
    """Number of seeds; every system is pre-trained and fine-tuned once per seed."""
    task_seeds: int | None = None
    """Number of seeds of fine-tuning; those beyond --seeds start from the same pre-trained systems
    again; unset: as --seeds.
    """
    seed: int = 1
    """The first seed."""
    pairs: tuple[str, ...] = ()
    """Tables of minimal pairs, with the columns good and bad."""
    word_tests: tuple[str, ...] = ()
    """Tests of word vectors: files of similarities (two words and a rating per line) and of
    analogies.
    """
    vocab_size: int = 8192
    """Size of the wordpiece vocabulary."""
    word_vocab_size: int = 32000
    """Size of the word vocabulary, for word vectors and ELMo."""
    lowercase: bool | None = None
    """Lower-case the text; unset: yes, except for tagging, where names are recognized by case."""
    held_out: float = 0.05
    """Fraction of the text that is held out from training, to evaluate language models on; at most
    300,000 characters.
    """
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to train on; auto uses the GPU if there is one."""

    def __post_init__(self) -> None:
        above(self, 0, "minutes", "task_minutes", "held_out")
        at_least(self, 1, "tokens", "seeds", "task_seeds")
        between(self, 6, LARGEST_SIZES["vocab_size"], "vocab_size", "word_vocab_size")
        seed(self)
        if self.task_seeds is not None and self.task_seeds < self.seeds:
            raise OutOfRange(self, "task_seeds", f"at least seeds ({self.seeds}), or unset")
        if self.held_out > 0.5:
            raise OutOfRange(self, "held_out", "above 0 and up to 0.5")
        if not self.fractions or not all(0 < each <= 1 for each in self.fractions):
            raise OutOfRange(self, "fractions", "numbers above 0 and up to 1")
        if len(self.parallel) not in (0, 2):
            raise ConfigError(
                f"parallel names {len(self.parallel)} files; expected two, SOURCE TARGET"
            )

    @property
    def minutes_each(self) -> float:
        """Minutes of pre-training of each system."""
        return 3.0 if self.minutes is None else self.minutes

    @property
    def sorted_fractions(self) -> tuple[float, ...]:
        """The fractions, each once, rising."""
        return tuple(sorted(set(self.fractions)))

    @property
    def names_of_systems(self) -> tuple[str, ...]:
        """The names in `systems`, some of which may be joined by commas."""
        return tuple(name for each in self.systems for name in each.split(",") if name)

    @property
    def seeds_of_training(self) -> range:
        """The seeds of pre-training."""
        return range(self.seed, self.seed + self.seeds)

    @property
    def seeds_of_fits(self) -> range:
        """The seeds of fine-tuning, which begin with those of pre-training."""
        return range(self.seed, self.seed + (self.task_seeds or self.seeds))

    def pretrained_by(self, seed: int) -> int:
        """Return the seed of the pre-training that the fine-tuning with a seed starts from."""
        return self.seed + (seed - self.seed) % self.seeds
