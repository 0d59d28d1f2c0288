"""Systems that train on pairs of sentences: their sizes, and the keys of their runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from bertwright.config.bert import PRESETS, BertConfig
from bertwright.config.ranges import (
    LARGEST_SIZES,
    MOST_LAYERS,
    MOST_TOKENS,
    MOST_WIDTH,
    below_one,
    between,
    transformer,
)
from bertwright.config.run import OptimizerConfig, RunConfig, ScheduleConfig
from bertwright.errors import ConfigError


@dataclass(frozen=True)
class AdamConfig(OptimizerConfig):
    """Adam as Vaswani et al. 2017 have it (section 5.3); see `OptimizerConfig`."""

    matrices: Literal["adamw", "muon"] = "adamw"
    """The optimizer of linear layers' weights; embeddings, norms and biases have AdamW."""
    beta2: float = 0.98
    """Decay of the running mean of squared gradients."""
    eps: float = 1e-9
    """Added to the root of the mean squared gradient."""
    weight_decay: float = 0.0
    """Decoupled weight decay of matrices; norms and biases have none."""


@dataclass(frozen=True)
class InverseSqrtConfig(ScheduleConfig):
    """The schedule of the same section; see `ScheduleConfig`."""

    curve: Literal["linear", "slanted", "inverse-sqrt"] = "inverse-sqrt"
    """linear, from 0 and to 0; slanted: ULMFiT's triangle, from a 32nd and back to it;
    inverse-sqrt: after warm-up as 1 / sqrt(step)."""
    warmup: float = 0.1
    """Fraction of the run in which the learning rate rises."""


@dataclass(frozen=True)
class TranslationRun(RunConfig):
    """A run over parallel text."""

    reads_pairs = True
    whole_documents = True
    system = "bertwright.recipes.translation:TRANSLATION"
    use = 'translate --model {run} "A sentence."'

    sequence_length: int = 128
    """Maximum tokens of a source and of a target, begin and end included; longer pairs are left
    out."""
    optimizer: AdamConfig = field(default_factory=AdamConfig)
    """The optimizer."""

    def __post_init__(self) -> None:
        between(self, 3, MOST_TOKENS, "sequence_length")
        super().__post_init__()

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest pair."""
        return 2 * self.sequence_length


@dataclass(frozen=True)
class TransformerConfig:
    """The architecture (Vaswani et al. 2017, table 3); encoder and decoder have L layers each."""

    vocab_size: int = 37000
    """V, entries of the vocabulary of both languages."""
    hidden_size: int = 512
    """H, width of a token's vector."""
    num_hidden_layers: int = 6
    """L, layers of the encoder, and of the decoder."""
    num_attention_heads: int = 8
    """A, attention heads of a layer."""
    intermediate_size: int = 2048
    """F, width inside the feed-forward layer."""
    hidden_act: Literal["relu", "gelu", "gelu_tanh"] = "relu"
    """Activation of the feed-forward layer."""
    norm: Literal["post", "pre"] = "post"
    """Normalize sums, as published, or what each part reads (and the last layer)."""
    max_position_embeddings: int = 1024
    """Maximum length of a source and of a target, in tokens."""
    hidden_dropout_prob: float = 0.1
    """Dropout after embeddings, attention and feed-forward layers."""
    attention_probs_dropout_prob: float = 0.0
    """Dropout of attention probabilities; above 0, attention is slower."""
    label_smoothing: float = 0.1
    """Fraction of the target distribution that is uniform over the vocabulary, in training."""
    layer_norm_eps: float = 1e-5
    """Added to the variance in a norm."""

    def __post_init__(self) -> None:
        transformer(self)
        below_one(self, "label_smoothing")


@dataclass(frozen=True)
class TransformerRun(
    TranslationRun,
    presets={
        "transformer-small": TransformerConfig(
            hidden_size=256,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=1024,
            hidden_dropout_prob=0.2,
        ),
        "transformer-base": TransformerConfig(),
        "transformer-big": TransformerConfig(
            hidden_size=1024,
            num_attention_heads=16,
            intermediate_size=4096,
            hidden_dropout_prob=0.3,
        ),
    },
    fixed="layer_norm_eps",
):
    """A run of the encoder-decoder Transformer: base and big as published, small for some ten
    thousand pairs."""

    default_model = "transformer-small"
    format = "bertwright.checkpoint.native.translation:TRANSFORMER"

    schedule: InverseSqrtConfig = field(default_factory=InverseSqrtConfig)
    """The learning rate over time."""


@dataclass(frozen=True)
class Bert2RndConfig(BertConfig):
    """The architecture: a BERT, and a decoder of the same sizes."""

    num_decoder_layers: int | None = None
    """Layers of the decoder; unset: as many as the encoder has, as published."""
    label_smoothing: float = 0.1
    """Fraction of the target distribution that is uniform over the vocabulary, in training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self, 1, MOST_LAYERS, "num_decoder_layers")
        below_one(self, "label_smoothing")

    @property
    def decoder(self) -> TransformerConfig:
        """The decoder."""
        layers = self.num_decoder_layers or self.num_hidden_layers
        both = [f.name for f in fields(TransformerConfig) if hasattr(self, f.name)]
        sizes: dict[str, Any] = {name: getattr(self, name) for name in both}
        return TransformerConfig(**{**sizes, "num_hidden_layers": layers})


@dataclass(frozen=True)
class Bert2RndRun(
    TranslationRun,
    presets={"bert2rnd": Bert2RndConfig(**asdict(PRESETS["bert-mini"]))},
    fixed="hidden_act type_vocab_size initializer_range layer_norm_eps",
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.0,
):
    """A run of a translation model whose encoder is a BERT; where none is given, it has the sizes
    of bert-mini."""

    default_model = "bert2rnd"
    format = "bertwright.checkpoint.native.translation:BERT2RND"
    system = "bertwright.recipes.translation:BERT2RND"

    encoder: str | None = None
    """Pre-trained BERT that the encoder starts as: a run, a checkpoint or a Hugging Face folder,
    whose vocabulary the data has too; unset: random weights."""
    schedule: InverseSqrtConfig = field(default_factory=InverseSqrtConfig)
    """The learning rate over time."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder is not None and self.init is not None:
            raise ConfigError(
                "--encoder and --init came: --init goes on from a model that has its encoder, "
                "--encoder begins a new one; pass one of them"
            )

    def trained_length(self, phase: int) -> int:
        """See `RunConfig`."""
        return self.sequence_length


@dataclass(frozen=True)
class Seq2SeqConfig:
    """The architecture; the encoder and the decoder have L layers each."""

    vocab_size: int = 30000
    """V, entries of the vocabulary of both languages."""
    embedding_size: int = 512
    """E, width of a token's vector, of source, target and output."""
    hidden_size: int = 1024
    """H, width of a state: half of it from each direction in the encoder."""
    num_hidden_layers: int = 2
    """L, layers of LSTM of the encoder, and of the decoder."""
    attention: Literal["additive", "multiplicative", "none"] = "multiplicative"
    """How the decoder scores the source: as Bahdanau et al. 2014, as Luong et al. 2015, or not at
    all."""
    input_feeding: bool = True
    """Let the decoder read what predicted the token before beside that token."""
    dropout: float = 0.2
    """Dropout of token vectors, between layers and before the output."""
    label_smoothing: float = 0.1
    """Fraction of the target distribution that is uniform over the vocabulary, in training."""
    fixed_source: bool = False
    """Whether the source has token vectors of its own, which are not trained."""

    def __post_init__(self) -> None:
        between(self, 1, LARGEST_SIZES["vocab_size"], "vocab_size")
        between(self, 1, MOST_WIDTH, "embedding_size", "hidden_size")
        between(self, 1, MOST_LAYERS, "num_hidden_layers")
        below_one(self, "dropout", "label_smoothing")
        if self.hidden_size % 2:
            raise ConfigError(f"hidden_size is {self.hidden_size}; expected an even number")


@dataclass(frozen=True)
class Seq2SeqRun(
    TranslationRun,
    presets={
        "seq2seq-small": Seq2SeqConfig(embedding_size=256, hidden_size=384, num_hidden_layers=1),
        "seq2seq-base": Seq2SeqConfig(),
        "seq2seq-cove": Seq2SeqConfig(embedding_size=300, hidden_size=600),
    },
    fixed="fixed_source",
):
    """Everything that decides a run of sequence to sequence with attention; seq2seq-cove has the
    encoder of McCann et al. 2017."""

    default_model = "seq2seq-small"
    format = "bertwright.checkpoint.native.translation:SEQ2SEQ"
    system = "bertwright.recipes.translation:SEQ2SEQ"

    word_vectors: str | None = None
    """Run or file of word vectors that the words of the source have and keep (CoVe); of a
    vocabulary of words."""

    def model_config(self, vocab_size: int) -> Seq2SeqConfig:
        """See `RunConfig`."""
        config: Seq2SeqConfig = super().model_config(vocab_size)
        return replace(config, fixed_source=self.word_vectors is not None)
