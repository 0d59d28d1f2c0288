"""The catalogue of formats: one entry a `model_type` of `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertwright.checkpoint.format import Format
from bertwright.checkpoint.huggingface.bert import BERT, LEFT_TO_RIGHT_BERT
from bertwright.checkpoint.huggingface.gpt import GPT, GPT2
from bertwright.checkpoint.model_folder import short
from bertwright.config.bert import BertConfig
from bertwright.config.runs.awd_lstm import AwdLstmConfig
from bertwright.config.runs.elmo import ElmoConfig
from bertwright.config.runs.memory_network import MemoryNetworkConfig
from bertwright.config.runs.ngram import NgramConfig
from bertwright.config.runs.nnlm import NnlmConfig
from bertwright.config.runs.seq2seq import Seq2SeqConfig
from bertwright.config.runs.transformer import TransformerConfig
from bertwright.config.runs.word_vectors import (
    FastTextConfig,
    GloveConfig,
    Word2VecConfig,
    WordVectorsConfig,
)
from bertwright.errors import ConfigError, DataError
from bertwright.models.awd_lstm import AwdLstm
from bertwright.models.elmo import Elmo
from bertwright.models.encoder import Encoder
from bertwright.models.ngram import NgramContext
from bertwright.models.nnlm import NnlmEncoder
from bertwright.models.seq2seq import AttentionalDecoder, Seq2Seq, Seq2SeqDecoder
from bertwright.models.transformer import Transformer, TransformerDecoder
from bertwright.models.word_vectors import FastText, WordVectors
from bertwright.objectives.answer import Answer
from bertwright.objectives.both_directions import BothDirections
from bertwright.objectives.context_words import context_words
from bertwright.objectives.cooccurrences import cooccurrences
from bertwright.objectives.next_token import NextToken
from bertwright.objectives.ngrams.tables import Ngrams
from bertwright.objectives.translation import Translation


def _transformer_translation(config: TransformerConfig, encoder: Encoder) -> Translation:
    assert isinstance(encoder, Transformer)
    decoder = TransformerDecoder(config, encoder)
    return Translation(decoder, encoder.token_embedding(), config.label_smoothing)


def _seq2seq_translation(config: Seq2SeqConfig, encoder: Encoder) -> Translation:
    assert isinstance(encoder, Seq2Seq)
    kind = Seq2SeqDecoder if config.attention == "none" else AttentionalDecoder
    decoder = kind(config, encoder)
    return Translation(decoder, decoder.table, config.label_smoothing)


def _both_directions(config: ElmoConfig, encoder: Encoder) -> BothDirections:
    outputs = min(config.vocab_size, (config.output_size or config.vocab_size) + 1)
    both = config.direction == "both"
    return BothDirections(config.projection_dim, outputs, both, config.negative_samples)


def _nnlm_head(config: NnlmConfig, encoder: Any) -> NextToken:
    width = config.hidden_size
    if not config.direct_connections:
        return NextToken(width, config.vocab_size)
    width += config.context_size * width
    return NextToken(width, config.vocab_size, read=encoder.with_words, layers=(0, 1))


def _awd_lstm_head(config: AwdLstmConfig, encoder: Encoder) -> NextToken:
    penalties = config.activation_penalty, config.temporal_penalty
    table = encoder.token_embedding()
    return NextToken(config.embedding_size, config.vocab_size, table, penalties=penalties)


FORMATS: dict[str, Format[Any]] = {
    "bert": BERT,
    "bert-ltr": LEFT_TO_RIGHT_BERT,
    "transformer": Format(
        "transformer", TransformerConfig, Transformer, {"translation": _transformer_translation}
    ),
    "seq2seq": Format("seq2seq", Seq2SeqConfig, Seq2Seq, {"translation": _seq2seq_translation}),
    "memory-network": Format(
        "memory-network", MemoryNetworkConfig, WordVectors, {"answer": lambda c, _: Answer(c)}
    ),
    "elmo": Format("elmo", ElmoConfig, Elmo, {"next_token": _both_directions}),
    "awd-lstm": Format("awd-lstm", AwdLstmConfig, AwdLstm, {"next_token": _awd_lstm_head}),
    "openai-gpt": GPT,
    "gpt2": GPT2,
    "ngram": Format("ngram", NgramConfig, NgramContext, {"next_token": lambda c, _: Ngrams(c)}),
    "nnlm": Format("nnlm", NnlmConfig, NnlmEncoder, {"next_token": _nnlm_head}),
    "glove": Format("glove", GloveConfig, WordVectors, {"cooccurrences": cooccurrences}),
    "word-vectors": Format("word-vectors", WordVectorsConfig, WordVectors, {}),
    "fasttext": Format("fasttext", FastTextConfig, FastText, {"context_words": context_words}),
    "word2vec": Format("word2vec", Word2VecConfig, WordVectors, {"context_words": context_words}),
}
"""Every format by its `model_type`."""


def format_named(content: Mapping[str, Any], path: Path) -> Format[Any]:
    """The format of a `config.json`; the oldest ones of BERT have no `model_type`.

    Raises:
        DataError: a `model_type` that has none.
    """
    name = content.get("model_type", "bert")
    if not isinstance(name, str) or name not in FORMATS:
        raise DataError(
            f"'model_type' in {path} is {short(name)}; expected one of {', '.join(FORMATS)}: take "
            "a model of that type (most of BGE, E5 in English, GTE and MiniLM are BERTs), or run "
            "this one with transformers"
        )
    return FORMATS[name]


def format_of(config: object) -> Format[Any]:
    """The format of a configuration, an encoder's `encoder.config`.

    Raises:
        ConfigError: none has configurations of this class.
    """
    for each in FORMATS.values():
        if type(config) is each.config:
            return each
    raise ConfigError(
        f"no format stores a model with a {type(config).__name__} as its configuration; there are "
        f"{', '.join(FORMATS)} (checkpoint/formats.py)"
    )


def only_bert(config: object, what: str) -> BertConfig:
    """The configuration, where only a BERT will do.

    Raises:
        ConfigError: it is another model's.
    """
    if not isinstance(config, BertConfig) or config.causal:
        raise ConfigError(
            f"{what} is for BERT only; this model is a {format_of(config).model_type}"
        )
    return config
