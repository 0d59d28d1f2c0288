"""The catalogue of systems: it maps a name to the class of the system's runs, and to a function
that imports its record.

A record imports torch, so it is imported only when that function is called. The command line reads
sizes and keys from the classes of runs, which need only the standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertwright.config.run import RunConfig
from bertwright.errors import ConfigError, DataError
from bertwright.models.albert.config import AlbertConfig, AlbertRun
from bertwright.models.awd_lstm.config import AwdLstmConfig, AwdLstmRun
from bertwright.models.bert.config import (
    BertConfig,
    BertRun,
    LeftToRightBertConfig,
    LeftToRightBertRun,
)
from bertwright.models.bert2rnd.config import Bert2RndConfig, Bert2RndRun
from bertwright.models.distilbert.config import DistilBertConfig, DistilBertRun
from bertwright.models.electra.config import ElectraConfig, ElectraRun
from bertwright.models.elmo.config import ElmoConfig, ElmoRun
from bertwright.models.gpt.config import MODEL_TYPE as GPT_MODEL_TYPE
from bertwright.models.gpt.config import Gpt2Config, Gpt2Run, GptConfig, GptRun
from bertwright.models.memory_network.config import MemoryNetworkConfig, MemoryNetworkRun
from bertwright.models.modernbert.config import ModernBertConfig, ModernBertRun
from bertwright.models.mpnet.config import MpnetConfig, MpnetRun
from bertwright.models.ngram.config import NgramConfig, NgramRun
from bertwright.models.nnlm.config import NnlmConfig, NnlmRun
from bertwright.models.roberta.config import (
    CamembertConfig,
    CamembertRun,
    RobertaConfig,
    RobertaRun,
    XlmRobertaConfig,
    XlmRobertaRun,
)
from bertwright.models.seq2seq.config import Seq2SeqConfig, Seq2SeqRun
from bertwright.models.transformer.config import TransformerConfig, TransformerRun
from bertwright.models.word_vectors.config import (
    FastTextConfig,
    FastTextRun,
    GloveConfig,
    GloveRun,
    StaticConfig,
    Word2VecConfig,
    Word2VecRun,
    WordVectorsConfig,
)

if TYPE_CHECKING:
    from bertwright.models.system import System


@dataclass(frozen=True)
class Entry:
    """One system of the catalogue."""

    config: type[Any]
    """The class of its models' configurations."""
    run: type[RunConfig] | None
    """The class of its runs; None: its models are read from files and never trained."""
    load: Callable[[], System]
    """Imports the system's record and returns it."""


def _bert() -> System:
    from bertwright.models.bert.system import BERT

    return BERT


def _left_to_right_bert() -> System:
    from bertwright.models.bert.system import LEFT_TO_RIGHT_BERT

    return LEFT_TO_RIGHT_BERT


def _roberta() -> System:
    from bertwright.models.roberta.system import ROBERTA

    return ROBERTA


def _xlm_roberta() -> System:
    from bertwright.models.roberta.system import XLM_ROBERTA

    return XLM_ROBERTA


def _camembert() -> System:
    from bertwright.models.roberta.system import CAMEMBERT

    return CAMEMBERT


def _distilbert() -> System:
    from bertwright.models.distilbert.system import DISTILBERT

    return DISTILBERT


def _electra() -> System:
    from bertwright.models.electra.system import ELECTRA

    return ELECTRA


def _albert() -> System:
    from bertwright.models.albert.system import ALBERT

    return ALBERT


def _mpnet() -> System:
    from bertwright.models.mpnet.system import MPNET

    return MPNET


def _modernbert() -> System:
    from bertwright.models.modernbert.system import MODERNBERT

    return MODERNBERT


def _transformer() -> System:
    from bertwright.models.transformer.system import TRANSFORMER

    return TRANSFORMER


def _bert2rnd() -> System:
    from bertwright.models.bert2rnd.system import BERT2RND

    return BERT2RND


def _seq2seq() -> System:
    from bertwright.models.seq2seq.system import SEQ2SEQ

    return SEQ2SEQ


def _awd_lstm() -> System:
    from bertwright.models.awd_lstm.system import AWD_LSTM

    return AWD_LSTM


def _elmo() -> System:
    from bertwright.models.elmo.system import ELMO

    return ELMO


def _gpt() -> System:
    from bertwright.models.gpt.system import GPT

    return GPT


def _gpt2() -> System:
    from bertwright.models.gpt.system import GPT2

    return GPT2


def _memory_network() -> System:
    from bertwright.models.memory_network.system import MEMORY_NETWORK

    return MEMORY_NETWORK


def _ngram() -> System:
    from bertwright.models.ngram.system import NGRAM

    return NGRAM


def _nnlm() -> System:
    from bertwright.models.nnlm.system import NNLM

    return NNLM


def _word2vec() -> System:
    from bertwright.models.word_vectors.system import WORD2VEC

    return WORD2VEC


def _fasttext() -> System:
    from bertwright.models.word_vectors.system import FASTTEXT

    return FASTTEXT


def _glove() -> System:
    from bertwright.models.word_vectors.system import GLOVE

    return GLOVE


def _word_vectors() -> System:
    from bertwright.models.word_vectors.system import FROM_FILES

    return FROM_FILES


def _model2vec() -> System:
    from bertwright.models.word_vectors.system import DISTILLED

    return DISTILLED


MODELS: dict[str, Entry] = {
    "bert": Entry(BertConfig, BertRun, _bert),
    "bert-ltr": Entry(LeftToRightBertConfig, LeftToRightBertRun, _left_to_right_bert),
    "roberta": Entry(RobertaConfig, RobertaRun, _roberta),
    "xlm-roberta": Entry(XlmRobertaConfig, XlmRobertaRun, _xlm_roberta),
    "camembert": Entry(CamembertConfig, CamembertRun, _camembert),
    "distilbert": Entry(DistilBertConfig, DistilBertRun, _distilbert),
    "electra": Entry(ElectraConfig, ElectraRun, _electra),
    "albert": Entry(AlbertConfig, AlbertRun, _albert),
    "mpnet": Entry(MpnetConfig, MpnetRun, _mpnet),
    "modernbert": Entry(ModernBertConfig, ModernBertRun, _modernbert),
    "transformer": Entry(TransformerConfig, TransformerRun, _transformer),
    "bert2rnd": Entry(Bert2RndConfig, Bert2RndRun, _bert2rnd),
    "seq2seq": Entry(Seq2SeqConfig, Seq2SeqRun, _seq2seq),
    "awd-lstm": Entry(AwdLstmConfig, AwdLstmRun, _awd_lstm),
    "elmo": Entry(ElmoConfig, ElmoRun, _elmo),
    "gpt": Entry(GptConfig, GptRun, _gpt),
    "gpt2": Entry(Gpt2Config, Gpt2Run, _gpt2),
    "memory-network": Entry(MemoryNetworkConfig, MemoryNetworkRun, _memory_network),
    "ngram": Entry(NgramConfig, NgramRun, _ngram),
    "nnlm": Entry(NnlmConfig, NnlmRun, _nnlm),
    "word2vec": Entry(Word2VecConfig, Word2VecRun, _word2vec),
    "fasttext": Entry(FastTextConfig, FastTextRun, _fasttext),
    "glove": Entry(GloveConfig, GloveRun, _glove),
    "word-vectors": Entry(WordVectorsConfig, None, _word_vectors),
    "model2vec": Entry(StaticConfig, None, _model2vec),
}
"""The systems by name: `--systems`, Python's `system`, and the `model_type` in the `config.json` of
their checkpoints, but for those in `MODEL_TYPES`. A run trains the first unless it names another.
"""
MODEL_TYPES = {GPT_MODEL_TYPE: "gpt"}
"""The `model_type` of a `config.json` -> the name of its system, where they differ."""


def system_name(model_type: str) -> str:
    """Return the name of the system whose `config.json` has a `model_type`."""
    return MODEL_TYPES.get(model_type, model_type)


def trainable() -> dict[str, type[RunConfig]]:
    """Return the systems that can be trained, with the classes of their runs."""
    return {name: entry.run for name, entry in MODELS.items() if entry.run is not None}


def system_of(run: RunConfig | type[RunConfig]) -> System:
    """Return the system of a run, or of a class of runs."""
    wanted = run if isinstance(run, type) else type(run)
    return next(entry.load() for entry in MODELS.values() if entry.run is wanted)


def system_of_config(config: object) -> System:
    """Return the system of a model's configuration (`encoder.config`).

    Raises:
        ConfigError: no system has configurations of this class.
    """
    entry = {entry.config: entry for entry in MODELS.values()}.get(type(config))
    if entry is not None:
        return entry.load()
    raise ConfigError(
        f"no system has a {type(config).__name__} as its configuration; there are "
        f"{', '.join(MODELS)} (models/catalogue.py)"
    )


def system_of_folder(content: Mapping[str, Any], path: Path) -> System:
    """Return the system that a `config.json` names. A file without a `model_type`, such as the
    oldest ones of BERT, is BERT's.

    Raises:
        DataError: no system has this `model_type`.
    """
    name = content.get("model_type", "bert")
    if not isinstance(name, str) or system_name(name) not in MODELS:
        shown = repr(name) if len(repr(name)) <= 60 else f"{repr(name)[:60]}..."
        known = [*MODEL_TYPES, *(name for name in MODELS if name not in MODEL_TYPES.values())]
        raise DataError(
            f"'model_type' in {path} is {shown}; expected one of {', '.join(known)}: take "
            "a model of that type (most of BGE, E5 in English, GTE and MiniLM are BERTs), or run "
            "this one with transformers"
        )
    return MODELS[system_name(name)].load()


def system_of_model(model: str | None) -> str:
    """Return the name of the system that a preset (`--model`) belongs to; for None, the first.

    Raises:
        ConfigError: no system has a preset of this name.
    """
    runs = trainable()
    if model is None:
        return next(iter(runs))
    for system, run in runs.items():
        if model in run.presets:
            return system
    known = [name for run in runs.values() for name in run.presets]
    near = [name for name in known if name.startswith(f"{model}-")]  # the presets of that system
    near = near or get_close_matches(model, known, n=1)
    meant = f"; did you mean {', '.join(near)}?" if near else ""
    raise ConfigError(f"no model {model!r}; expected {', '.join(known)}{meant}")


def system_and_preset(system: str | None, size: str | None) -> tuple[str, str | None]:
    """Return the names of a system and of its preset that Python's arguments mean.

    `size` is a preset (`bert-mini-ltr`), or what the name of one adds to that of its system
    (`mini`). Without a system it is a preset of any, or a size of the first system.

    Raises:
        ConfigError: there is no such system, or the system has no such preset.
    """
    runs = trainable()
    if system is not None and system not in runs:
        near = get_close_matches(system, runs, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"no system {system!r}; expected {', '.join(runs)}{meant}")
    if size is None:
        return system or system_of_model(None), None
    first = system or system_of_model(None)
    for name in runs[first].presets:
        if name == size or sorted(name.split("-")) == sorted(f"{first}-{size}".split("-")):
            return first, name
    if system is None:
        return system_of_model(size), size
    raise ConfigError(
        f"{system} has no preset {size!r}; expected {', '.join(runs[system].presets)}"
    )


def system_that(can: Callable[[System], bool], config: object, what: str) -> System:
    """Return the system of a model's configuration, if it supports a feature.

    Args:
        can: returns whether a system supports the feature.
        config: the configuration of a model.
        what: the name of the feature, for the message.

    Raises:
        ConfigError: the system does not support the feature; the message names those that do.
    """
    system = system_of_config(config)
    if not can(system):
        names = [name for name, entry in MODELS.items() if can(entry.load())]
        raise ConfigError(f"{what} is for {', '.join(names)} only; this model is a {system.name}")
    return system
