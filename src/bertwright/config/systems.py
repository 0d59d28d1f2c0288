"""Which keys a system's runs have: one entry a system. What each system is stands in `recipes/`."""

from __future__ import annotations

from bertwright.config.run import RunConfig
from bertwright.config.runs.awd_lstm import AwdLstmRun
from bertwright.config.runs.bert import BertRun
from bertwright.config.runs.elmo import ElmoRun
from bertwright.config.runs.gpt import Gpt2Run, GptRun
from bertwright.config.runs.left_to_right_bert import LeftToRightBertRun
from bertwright.config.runs.memory_network import MemoryNetworkRun
from bertwright.config.runs.ngram import NgramRun
from bertwright.config.runs.nnlm import NnlmRun
from bertwright.config.runs.seq2seq import Seq2SeqRun
from bertwright.config.runs.transformer import TransformerRun
from bertwright.config.runs.word_vectors import FastTextRun, GloveRun, Word2VecRun
from bertwright.errors import ConfigError

RUN_CONFIGS: dict[str, type[RunConfig]] = {
    "bert": BertRun,
    "bert-ltr": LeftToRightBertRun,
    "transformer": TransformerRun,
    "seq2seq": Seq2SeqRun,
    "awd-lstm": AwdLstmRun,
    "elmo": ElmoRun,
    "openai-gpt": GptRun,
    "gpt2": Gpt2Run,
    "memory-network": MemoryNetworkRun,
    "ngram": NgramRun,
    "nnlm": NnlmRun,
    "word2vec": Word2VecRun,
    "fasttext": FastTextRun,
    "glove": GloveRun,
}
"""System, as `model_type` of a checkpoint's config.json names it -> the configuration of its runs.
The first is what a run trains where nothing is said."""


def system_of(model: str | None) -> str:
    """The system that a `model` belongs to; of None, the first.

    Raises:
        ConfigError: no system has a model of this name.
    """
    if model is None:
        return next(iter(RUN_CONFIGS))
    for system, config in RUN_CONFIGS.items():
        if model in config.presets:
            return system
    known = [name for config in RUN_CONFIGS.values() for name in config.presets]
    raise ConfigError(f"no model {model!r}; expected {', '.join(known)}")
