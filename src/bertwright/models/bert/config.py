"""BERT's sizes, and the keys of its runs: initialization, instances, masks and phases.

Devlin et al. 2019, section 3 and appendix A; Turc et al. 2019 for the smaller sizes. The names of a
model's fields are those of the published `bert_config.json`. Annotations are types in this file,
not text, because cyclopts evaluates those that a subclass inherits in the subclass's file.
"""

import math
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar, Literal

from bertwright.config.language_models import LanguageModelRun
from bertwright.config.ranges import (
    MOST_TOKENS,
    OutOfRange,
    above,
    at_least,
    below_one,
    between,
    fraction,
    transformer,
)
from bertwright.config.run import StepRun
from bertwright.errors import ConfigError


@dataclass(frozen=True)
class BertConfig:
    """The architecture of a BERT; the defaults are BERT Base."""

    causal: ClassVar[bool] = False
    """Whether a token attends only to itself and the tokens before it."""
    output_act: ClassVar[str | None] = None
    """The activation before the output layer of the masked LM; None: that of the layers."""

    vocab_size: int = 30522
    """V, the number of entries of the vocabulary."""
    hidden_size: int = 768
    """H, the width of a token's vector."""
    num_hidden_layers: int = 12
    """L, the number of layers."""
    num_attention_heads: int = 12
    """A, the number of attention heads per layer, each H / A wide."""
    intermediate_size: int = 3072
    """F, the width inside the feed-forward layer."""
    hidden_act: Literal["gelu", "gelu_tanh"] = "gelu"
    """Activation of the feed-forward layer: GELU, exact (as published) or by its tanh
    approximation.
    """
    hidden_dropout_prob: float = 0.1
    """Dropout after embeddings, attention and feed-forward layers; published: 0.1."""
    attention_probs_dropout_prob: float = 0.1
    """Dropout of attention probabilities; published: 0.1; above 0, attention is slower."""
    max_position_embeddings: int = 512
    """Maximum length of a sequence, in tokens."""
    type_vocab_size: int = 2
    """Number of segments: 2 for A and B; 1: the texts of a pair have the same segment, and only
    [SEP] separates them; 0: there are no segment vectors (transformers has no such BERT)."""
    initializer_range: float = 0.02
    """Standard deviation of the normal distribution that initializes weights."""
    layer_norm_eps: float = 1e-12
    """Epsilon of layer normalization, which is added to the variance."""
    pooler: bool = True
    """Whether there is a pooler over [CLS], which next-sentence prediction needs; without it, texts
    are classified by the pooled vectors of their tokens."""

    def __post_init__(self) -> None:
        transformer(self)
        if self.hidden_act not in ("gelu", "gelu_tanh"):
            raise ConfigError(f"hidden_act is {self.hidden_act!r}; expected 'gelu' or 'gelu_tanh'")

    @property
    def head_size(self) -> int:
        """D, the width of an attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def embedding_size(self) -> int:
        """E, the width of the embeddings, by default H."""
        return self.hidden_size

    @property
    def projects_embeddings(self) -> bool:
        """Whether a linear layer projects the embeddings to H."""
        return self.embedding_size != self.hidden_size

    @property
    def max_length(self) -> int:
        """The maximum length of a sequence, in tokens."""
        return self.max_position_embeddings


@dataclass(frozen=True)
class LeftToRightBertConfig(BertConfig):
    """The same encoder, left to right (table 5 of the paper, LTR & no NSP)."""

    causal: ClassVar[bool] = True
    """Whether a token attends only to itself and the tokens before it."""
    pooler: bool = False
    """False: [CLS] sees only itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooler:
            raise ConfigError(
                "pooler is true; a left-to-right BERT has none, as its [CLS] sees only itself"
            )


def _preset(layers: int, hidden: int, heads: int) -> BertConfig:
    return replace(
        BertConfig(),
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
    )


PRESETS = {
    "bert-tiny": _preset(2, 128, 2),
    "bert-mini": _preset(4, 256, 4),
    "bert-small": _preset(4, 512, 8),
    "bert-medium": _preset(8, 512, 8),
    "bert-base": _preset(12, 768, 12),
    "bert-large": _preset(24, 1024, 16),
}
"""The published sizes by name."""


@dataclass(frozen=True)
class TokenInitializationConfig:
    """How token vectors and the output bias are initialized."""

    counted_vectors: bool = True
    """Initialize token vectors from co-occurrence counts of the training data."""
    frequency_bias: bool = True
    """Initialize the output bias to the logarithm of each token's frequency."""
    embedding_std: float = 0.05
    """Root mean square of token and position vectors; published: 0.02."""

    def __post_init__(self) -> None:
        at_least(self, 1e-6, "embedding_std")


@dataclass(frozen=True)
class InitializationConfig(TokenInitializationConfig):
    """How weights are initialized; with all options off and `embedding_std` 0.02, they are random,
    as published.
    """

    aimed_heads: bool = True
    """Initialize position vectors as sinusoids, and heads of the first layer to attend to
    neighbouring tokens.
    """


@dataclass(frozen=True)
class InstanceConfig:
    """What one training sequence is made of (BERT, section 3.1 and appendix A.2)."""

    objectives: Literal["mlm", "mlm+nsp", "mlm+sop", "mlm+contrast"] = "mlm+nsp"
    """Masked LM alone, or with next-sentence prediction (nsp), sentence-order prediction (sop), or
    the contrast of neighbouring sequences, which trains the mean of a text's tokens (contrast)."""
    sequence_length: int = 128
    """Maximum tokens per sequence, including [CLS] and [SEP]."""
    short_probability: float = 0.1
    """Fraction of instances with a shorter, random target length."""
    random_next_probability: float = 0.5
    """Fraction of pairs whose B comes from another document (for `mlm+sop`: that are swapped)."""

    def __post_init__(self) -> None:
        between(self, 8, MOST_TOKENS, "sequence_length")
        fraction(self, "short_probability", "random_next_probability")


@dataclass(frozen=True)
class SingleTextConfig(InstanceConfig):
    """What one training sequence is made of, for the models of the BERT family that are trained on
    single texts.
    """

    objectives: Literal["mlm"] = "mlm"
    """Masked tokens alone; only a BERT is trained on pairs."""


@dataclass(frozen=True)
class LongPhaseConfig:
    """The last part of a run on longer sequences (BERT, appendix A.2)."""

    fraction: float = 0.0
    """Fraction of the run for the phase of longer sequences; 0: no such phase. Published: 0.1."""
    sequence_length: int = 512
    """Maximum tokens per sequence in this phase."""
    batch_tokens: int | None = None
    """Tokens per optimizer step in this phase; unset: `batch.tokens`."""

    def __post_init__(self) -> None:
        below_one(self, "fraction")
        between(self, 8, MOST_TOKENS, "sequence_length")
        at_least(self, 8, "batch_tokens")


@dataclass(frozen=True)
class MaskingConfig:
    """Which tokens are masked, and what replaces them (BERT, appendix A.1)."""

    probability: float = 0.15
    """Fraction of tokens to predict."""
    max_predictions: int | None = None
    """Maximum predictions per sequence; unset: `probability` times the maximum sequence length."""
    whole_word: bool = False
    """Mask all tokens of a word together."""
    mask_fraction: float = 0.8
    """Fraction of the tokens to predict that is replaced by [MASK]."""
    random_fraction: float = 0.1
    """Fraction of the tokens to predict that is replaced by a random token; the rest stay."""

    def __post_init__(self) -> None:
        above(self, 0, "probability")
        fraction(self, "probability", "mask_fraction", "random_fraction")
        if self.mask_fraction + self.random_fraction > 1 + 1e-9:  # 0.7 + 0.3 may exceed 1 in floats
            rest = f"{1 - self.mask_fraction:g} or less, as mask_fraction is {self.mask_fraction}"
            raise OutOfRange(self, "random_fraction", rest)
        at_least(self, 1, "max_predictions")

    def most_predictions(self, sequence_length: int) -> int:
        """Return the most predictions of one sequence of at most `sequence_length` tokens."""
        if self.max_predictions is not None:
            return self.max_predictions
        return max(1, math.ceil(self.probability * sequence_length))


@dataclass(frozen=True)
class MaskedRun(StepRun):
    """A run of a model of BERT's family, on masked text."""

    instances: InstanceConfig = field(default_factory=InstanceConfig)
    """What a training sequence is made of."""
    long_phase: LongPhaseConfig = field(default_factory=LongPhaseConfig)
    """The last part of the run, on longer sequences."""
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    """Which tokens are masked."""
    architecture: BertConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest sequence of any phase."""
        long = self.long_phase.sequence_length if self.long_phase.fraction else 0
        return max(self.instances.sequence_length, long)

    def positions_of(self, model: BertConfig) -> int:
        return model.max_length

    def trained_length(self, phase: int) -> int:
        return self.longest_sequence if phase else self.instances.sequence_length


@dataclass(frozen=True)
class BertRun(MaskedRun):
    """The configuration of a pre-training run of BERT."""

    start: InitializationConfig = field(default_factory=InitializationConfig)
    """How weights are initialized."""


LEFT_TO_RIGHT_PRESETS = {
    f"{name}-ltr": LeftToRightBertConfig(**{**asdict(size), "pooler": False})
    for name, size in PRESETS.items()
}
"""The presets of BERT, for the left-to-right model."""


@dataclass(frozen=True)
class LeftToRightBertRun(LanguageModelRun):
    """A run of a left-to-right BERT."""

    start: InitializationConfig = field(default_factory=InitializationConfig)
    """How weights are initialized."""
    architecture: LeftToRightBertConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    def positions_of(self, model: BertConfig) -> int:
        return model.max_position_embeddings

    def trained_length(self, phase: int) -> int:
        return self.longest_sequence
