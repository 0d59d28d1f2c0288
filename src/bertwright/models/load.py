"""From a name, a run, a configuration or a folder to the record of its system.

A record (`System`) imports torch and the modules of its system, so it is imported only when it is
asked for. The catalogue itself needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bertwright.config.run import RunConfig
from bertwright.errors import ConfigError, DataError
from bertwright.models.catalogue import MODELS, row_of, system_name
from bertwright.models.system import System
from bertwright.nn.encoder import GoesOn


def load(name: str) -> System:
    """Return the record of a system."""
    if name not in MODELS:
        raise ConfigError(f"no system {name!r}; expected {', '.join(MODELS)}")
    return import_system(name)


def import_system(name: str) -> System:
    """Import the module of a system's record, and return the record."""
    match name:
        case "bert":
            from bertwright.models.bert.system import BERT as system
        case "bert-ltr":
            from bertwright.models.bert.system import LEFT_TO_RIGHT_BERT as system
        case "roberta":
            from bertwright.models.roberta.model import ROBERTA as system
        case "xlm-roberta":
            from bertwright.models.roberta.model import XLM_ROBERTA as system
        case "camembert":
            from bertwright.models.roberta.model import CAMEMBERT as system
        case "distilbert":
            from bertwright.models.distilbert.model import DISTILBERT as system
        case "electra":
            from bertwright.models.electra.system import ELECTRA as system
        case "albert":
            from bertwright.models.albert.model import ALBERT as system
        case "mpnet":
            from bertwright.models.mpnet.model import MPNET as system
        case "modernbert":
            from bertwright.models.modernbert.system import MODERNBERT as system
        case "transformer":
            from bertwright.models.transformer.system import TRANSFORMER as system
        case "bert2rnd":
            from bertwright.models.bert2rnd.system import BERT2RND as system
        case "seq2seq":
            from bertwright.models.seq2seq.system import SEQ2SEQ as system
        case "awd-lstm":
            from bertwright.models.awd_lstm.system import AWD_LSTM as system
        case "elmo":
            from bertwright.models.elmo.system import ELMO as system
        case "gpt":
            from bertwright.models.gpt.system import GPT as system
        case "gpt2":
            from bertwright.models.gpt.system import GPT2 as system
        case "memory-network":
            from bertwright.models.memory_network.system import MEMORY_NETWORK as system
        case "ngram":
            from bertwright.models.ngram.system import NGRAM as system
        case "nnlm":
            from bertwright.models.nnlm.system import NNLM as system
        case "word2vec":
            from bertwright.models.word_vectors.system import WORD2VEC as system
        case "fasttext":
            from bertwright.models.word_vectors.system import FASTTEXT as system
        case "glove":
            from bertwright.models.word_vectors.system import GLOVE as system
        case "word-vectors":
            from bertwright.models.word_vectors.system import FROM_FILES as system
        case "model2vec":
            from bertwright.models.word_vectors.system import DISTILLED as system
        case _:
            raise NotImplementedError(f"{name} has a row in the catalogue, and no case here")
    return system


def system_of(run: RunConfig | type[RunConfig]) -> System:
    """Return the system of a run, or of a class of runs."""
    return load(row_of(run).name)


def system_of_config(config: object) -> System:
    """Return the system of a model's configuration (`encoder.config`)."""
    row = {row.config: row for row in MODELS.values()}.get(type(config))
    if row is not None:
        return load(row.name)
    raise ConfigError(
        f"no system has a {type(config).__name__} as its configuration; there are "
        f"{', '.join(MODELS)} (models/catalogue.py)"
    )


def system_of_folder(content: Mapping[str, Any], path: Path) -> System:
    """Return the system that a `config.json` names. A file without a `model_type`, such as the
    oldest ones of BERT, is BERT's.
    """
    name = content.get("model_type", "bert")
    if not isinstance(name, str) or system_name(name) not in MODELS:
        shown = repr(name) if len(repr(name)) <= 60 else f"{repr(name)[:60]}..."
        known = [row.model_type or row.name for row in MODELS.values()]
        raise DataError(
            f"'model_type' in {path} is {shown}; expected one of {', '.join(known)}: take "
            "a model of that type (most of BGE, E5 in English, GTE and MiniLM are BERTs), or run "
            "this one with transformers"
        )
    return load(system_name(name))


def systems_that(can: Callable[[System], bool]) -> list[str]:
    """Return the names of the systems that support a feature."""
    return [name for name in MODELS if can(load(name))]


def continues_texts(system: System) -> bool:
    """Return whether a system's encoder can continue texts token by token."""
    return isinstance(system.encoder, type) and issubclass(system.encoder, GoesOn)


def system_that(can: Callable[[System], bool], config: object, what: str) -> System:
    """Return the system of a model's configuration, if it supports a feature.

    Args:
        can: returns whether a system supports the feature.
        what: the name of the feature, for the message.
    """
    system = system_of_config(config)
    if not can(system):
        names = ", ".join(systems_that(can))
        raise ConfigError(f"{what} is for {names} only; this model is a {system.row.name}")
    return system
