"""A run of a left-to-right BERT: BERT's sizes, and the windows of a language model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from bertwright.config.bert import PRESETS, LeftToRightBertConfig
from bertwright.config.runs.gpt import GptRun


@dataclass(frozen=True)
class LeftToRightBertRun(
    GptRun,
    presets={f"{name}-ltr": LeftToRightBertConfig(**asdict(of)) for name, of in PRESETS.items()},
    fixed="type_vocab_size initializer_range layer_norm_eps",
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
):
    """A run over token streams."""

    default_model = "bert-mini-ltr"
    format = "bertwright.checkpoint.huggingface.bert:LEFT_TO_RIGHT_BERT"

    sequence_length: int = 128
    """Maximum tokens of a window, the tokens for begin and end included."""
