"""The sizes of a translation model whose encoder is a BERT, and the keys of its runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bertwright.config.ranges import (
    MOST_LAYERS,
    below_one,
    between,
)
from bertwright.config.run import ScheduleConfig
from bertwright.config.translation import TranslationRun, inverse_sqrt
from bertwright.errors import ConfigError
from bertwright.models.bert.config import PRESETS, BertConfig
from bertwright.models.transformer.config import TransformerConfig


@dataclass(frozen=True)
class Bert2RndConfig(BertConfig):
    """The architecture: a BERT, and a decoder of the same sizes."""

    num_decoder_layers: int | None = None
    """Number of decoder layers; unset: as many as the encoder has, as published."""
    label_smoothing: float = 0.1
    """Label smoothing: the fraction of the target distribution that is uniform over the vocabulary,
    in training.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self, 1, MOST_LAYERS, "num_decoder_layers")
        below_one(self, "label_smoothing")

    @property
    def decoder(self) -> TransformerConfig:
        """The sizes of the decoder."""
        layers = self.num_decoder_layers or self.num_hidden_layers
        both = [f.name for f in fields(TransformerConfig) if hasattr(self, f.name)]
        sizes: dict[str, Any] = {name: getattr(self, name) for name in both}
        return TransformerConfig(**{**sizes, "num_hidden_layers": layers})


BERT2RND_PRESETS = {"bert2rnd": Bert2RndConfig(**asdict(PRESETS["bert-mini"]))}
"""The only preset, for runs that start from no BERT."""


@dataclass(frozen=True)
class Bert2RndRun(TranslationRun):
    """A run of a translation model whose encoder is a BERT. A run that names none has the sizes of
    bert-mini.
    """

    encoder: str | None = None
    """Pre-trained BERT that the encoder starts from: a run, a checkpoint or a Hugging Face folder.
    The data must have its vocabulary. Unset: the encoder starts from random weights.
    """
    schedule: ScheduleConfig = field(default_factory=inverse_sqrt)
    """The learning rate over time."""
    architecture: Bert2RndConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder is not None and self.init is not None:
            raise ConfigError(
                "--encoder and --init are both given; --init continues a model that has its "
                "encoder, --encoder begins a new one: pass one of them"
            )

    def sources(self) -> dict[str, str]:
        return {} if self.encoder is None else {"encoder": self.encoder}

    @property
    def sized_by(self) -> str | None:
        return self.init or self.encoder

    def positions_of(self, model: Bert2RndConfig) -> int:
        return model.max_position_embeddings

    def trained_length(self, phase: int) -> int:
        return self.sequence_length
