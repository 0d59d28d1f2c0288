"""Language models, counted, feed-forward and recurrent: their sizes, and the keys of their runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from bertwright.config.ranges import (
    LARGEST_SIZES,
    MOST_CELLS,
    MOST_LAYERS,
    MOST_TOKENS,
    MOST_WIDTH,
    OutOfRange,
    above,
    at_least,
    below_one,
    between,
)
from bertwright.config.run import OptimizerConfig, RunConfig
from bertwright.errors import ConfigError


@dataclass(frozen=True)
class LanguageModelRun(RunConfig):
    """A run over token streams; a system adds its `architecture` and its presets."""

    system = "bertwright.recipes.language_models:LANGUAGE_MODEL"
    use = 'generate --model {run} "A text"'

    # of built-in types alone: cyclopts reads these annotations in a subclass's file
    sequence_length: int = 128
    """Maximum tokens of a window, the tokens for begin and end included."""
    burn_in: int = 0
    """Tokens of a window that repeat the one before and are read, not predicted."""

    def __post_init__(self) -> None:
        between(self, 2, MOST_TOKENS, "sequence_length")
        at_least(self, 0, "burn_in")
        if self.burn_in >= self.sequence_length - 1:
            raise OutOfRange(self, "burn_in", f"at most {self.sequence_length - 2}")
        super().__post_init__()

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest window."""
        return self.sequence_length


MOST_ORDER, MOST_NGRAMS = 100, 10**12


@dataclass(frozen=True)
class NgramConfig:
    """The model."""

    vocab_size: int = 30000
    """V."""
    order: int = 5
    """n, the longest n-grams; a token is predicted from the n - 1 before it."""
    ngrams: tuple[int, ...] = ()
    """How many it holds of the orders 2 to n; empty before they are counted."""

    def __post_init__(self) -> None:
        between(self, 1, LARGEST_SIZES["vocab_size"], "vocab_size")
        between(self, 1, MOST_ORDER, "order")
        if len(self.ngrams) > self.order - 1 or any(not 0 <= n <= MOST_NGRAMS for n in self.ngrams):
            counts = f"numbers from 0 to {MOST_NGRAMS:,}, of the orders 2 to {self.order}"
            raise OutOfRange(self, "ngrams", counts)


@dataclass(frozen=True)
class NgramRun(RunConfig, presets={"ngram": NgramConfig()}, fixed="ngrams"):
    """A run of an n-gram model: one count of the text."""

    default_model = "ngram"
    format = "bertwright.checkpoint.native.language_models:NGRAM"
    system = "bertwright.recipes.road.ngram:NGRAM"
    use = 'generate --model {run} "A text"'
    own_loop = True

    smoothing: Literal["kneser-ney", "add-k"] = "kneser-ney"
    """Interpolated modified Kneser-Ney, or a constant that is added to every count."""
    k: float = 0.01
    """The constant of add-k."""
    prune: tuple[int, ...] = ()
    """Of the orders 1 to n: n-grams that occur as often, or less, are left out; the last number is
    for higher orders, too. 0 0 1 leaves out trigrams and longer ones that occur once."""
    memory_mb: int = 512
    """Megabytes that counts may take before they are sorted and go to the disk, into `out`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above(self, 0, "k")
        at_least(self, 1, "memory_mb")
        if self.epochs != 1:
            raise ConfigError(f"epochs is {self.epochs:g}; a text is counted once: leave it out")
        if self.init is not None:
            raise ConfigError("--init is set, but counts begin with none: leave it out")
        if self.prune and (self.prune[0] or list(self.prune) != sorted(self.prune)):
            raise OutOfRange(self, "prune", "0 first, as words stay, then numbers that never fall")


@dataclass(frozen=True)
class NnlmConfig:
    """The architecture."""

    vocab_size: int = 30000
    """V."""
    hidden_size: int = 100
    """H, numbers of a word vector and tanh units."""
    context_size: int = 4
    """C, previous tokens that are read; an n-gram model of order C + 1 reads as many."""
    direct_connections: bool = False
    """Whether the output layer reads the word vectors too (the paper's W)."""

    def __post_init__(self) -> None:
        between(self, 1, LARGEST_SIZES["vocab_size"], "vocab_size")
        between(self, 1, MOST_WIDTH, "hidden_size")
        between(self, 1, 1_000, "context_size")


@dataclass(frozen=True)
class NnlmOptimizer(OptimizerConfig):
    """A network of one layer learns at a higher rate; see `OptimizerConfig`."""

    learning_rate: float = 2e-2
    """The peak learning rate of AdamW, reached after warm-up."""


@dataclass(frozen=True)
class NnlmRun(
    LanguageModelRun, presets={"nnlm-small": NnlmConfig(), "nnlm-base": NnlmConfig(hidden_size=256)}
):
    """A run of an NNLM."""

    default_model = "nnlm-small"
    use = "perplexity test.txt --model {run}"
    format = "bertwright.checkpoint.native.language_models:NNLM"

    optimizer: NnlmOptimizer = field(default_factory=NnlmOptimizer)
    """The optimizer."""


_DROPPED = ("embedding", "input", "hidden", "output", "weight")
DROPOUTS = tuple(f"{name}_dropout" for name in _DROPPED)


@dataclass(frozen=True)
class AwdLstmConfig:
    """The architecture; the defaults are those of Merity et al. 2018 for WikiText-2."""

    vocab_size: int = 30000
    """V, tokens it reads and predicts."""
    embedding_size: int = 400
    """H, width of a token's vector and of the last layer, as the softmax is tied to them."""
    hidden_size: int = 1150
    """Width of the layers between."""
    num_hidden_layers: int = 3
    """L, layers of LSTM."""
    embedding_dropout: float = 0.1
    """Fraction of the vocabulary whose vectors are 0 throughout a micro-batch."""
    input_dropout: float = 0.65
    """Dropout of the first layer's input, one mask a sequence."""
    hidden_dropout: float = 0.2
    """Dropout between layers, one mask a sequence."""
    output_dropout: float = 0.4
    """Dropout of the last layer's output, one mask a sequence."""
    weight_dropout: float = 0.5
    """DropConnect: the fraction of recurrent weights that are 0 throughout a micro-batch."""
    dropout_scale: float = 1.0
    """Factor of all five; 0: no dropout."""
    activation_penalty: float = 2.0
    """AR: factor of the mean square of the last layer's output, dropped out."""
    temporal_penalty: float = 1.0
    """TAR: factor of the mean square of its change from one token to the next."""

    def __post_init__(self) -> None:
        between(self, 1, LARGEST_SIZES["vocab_size"], "vocab_size")
        between(self, 1, MOST_WIDTH, "embedding_size", "hidden_size")
        between(self, 1, MOST_LAYERS, "num_hidden_layers")
        at_least(self, 0, "dropout_scale", "activation_penalty", "temporal_penalty")
        below_one(self, *DROPOUTS)
        most = max(getattr(self, name) for name in DROPOUTS)
        if self.dropout_scale * most >= 1:
            raise OutOfRange(self, "dropout_scale", f"less than {1 / most:g}: a dropout is {most}")

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the embeddings and of layers 1 to L."""
        between = (self.hidden_size,) * (self.num_hidden_layers - 1)
        return (self.embedding_size, *between, self.embedding_size)


_SMALL = AwdLstmConfig(embedding_size=192, hidden_size=384, dropout_scale=0.0)


@dataclass(frozen=True)
class AwdLstmOptimizer(OptimizerConfig):
    """LSTMs learn at a higher rate; see `OptimizerConfig`."""

    learning_rate: float = 5e-3
    """The peak learning rate of AdamW, reached after warm-up."""


@dataclass(frozen=True)
class AwdLstmRun(
    LanguageModelRun,
    presets={
        "awd-lstm-mini": replace(_SMALL, embedding_size=128, hidden_size=128),
        "awd-lstm-small": _SMALL,
        "awd-lstm": AwdLstmConfig(),
    },
):
    """A run of an AWD-LSTM; awd-lstm is the published one, the others have no dropout: they see
    their text once."""

    default_model = "awd-lstm-small"
    use = "perplexity test.txt --model {run}"
    format = "bertwright.checkpoint.native.language_models:AWD_LSTM"

    optimizer: AwdLstmOptimizer = field(default_factory=AwdLstmOptimizer)
    """The optimizer."""


MOST_FILTERS = 100
"""Widths of convolutions."""


@dataclass(frozen=True)
class ElmoConfig:
    """The architecture (Peters et al. 2018, section 3; Jozefowicz et al. 2016)."""

    vocab_size: int = 30000
    """V, tokens it reads."""
    output_size: int | None = None
    """Tokens it predicts, the first of the vocabulary; the rest count as one more. Unset: all."""
    max_characters_per_token: int = 50
    """C, ids of a token: its UTF-8 bytes and the marks of its begin and end; longer ones are
    truncated."""
    character_size: int = 16
    """Width of a byte's vector."""
    filters: tuple[tuple[int, int], ...] = (
        *((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512)),
        (7, 1024),
    )
    """(width in bytes, number) of the convolutions."""
    n_highway: int = 2
    """Highway layers over the convolutions."""
    activation: Literal["relu"] = "relu"
    """Over the convolutions."""
    dim: int = 4096
    """Width of an LSTM's cell."""
    projection_dim: int = 512
    """P, width of a direction's vectors."""
    n_layers: int = 2
    """L, layers of LSTM in each direction."""
    cell_clip: float = 3.0
    """Cells are clipped to this; 0: never, which is faster."""
    proj_clip: float = 3.0
    """Projections are clipped to this; 0: never."""
    use_skip_connections: bool = True
    """Whether what a layer of LSTM above the first reads is added to what it gives."""
    direction: Literal["both", "forward"] = "both"
    """Read from both ends, or from left to right alone (TagLM's forward language model)."""
    hidden_dropout_prob: float = 0.1
    """Dropout of what goes into the LSTMs and comes out of them."""
    negative_samples: int = 0
    """Sampled softmax with so many wrong tokens in training; 0: the whole vocabulary. Published:
    8,192."""

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


_NARROW = ((1, 16), (2, 16), (3, 32), (4, 64), (5, 64))


@dataclass(frozen=True)
class ElmoRun(
    LanguageModelRun,
    presets={
        "elmo-mini": ElmoConfig(
            filters=_NARROW, n_highway=1, dim=256, projection_dim=128, cell_clip=0.0, proj_clip=0.0
        ),
        "elmo-small": ElmoConfig(n_highway=1, dim=1024, projection_dim=128),
        "elmo": ElmoConfig(),
    },
    fixed="max_characters_per_token character_size filters n_highway activation "
    "use_skip_connections",
):
    """A run of ELMo; elmo and elmo-small have the sizes of the published files of these names."""

    default_model = "elmo-mini"
    format = "bertwright.checkpoint.native.language_models:ELMO"
    system = "bertwright.recipes.language_models:ELMO"
    use = "senses --model {run}"
