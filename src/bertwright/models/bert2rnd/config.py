"""The sizes of a translation model whose encoder is a BERT, and the keys of its runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bertwright.config.ranges import (
    MOST_LAYERS,
    below_one,
    between,
)
from bertwright.config.translation import InverseSqrtConfig, TranslationRun
from bertwright.errors import ConfigError
from bertwright.models.bert.config import PRESETS, BertConfig
from bertwright.models.transformer.config import TransformerConfig


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

    def sources(self) -> dict[str, str]:
        """See `RunConfig`."""
        return {} if self.encoder is None else {"encoder": self.encoder}

    def trained_length(self, phase: int) -> int:
        """See `RunConfig`."""
        return self.sequence_length
