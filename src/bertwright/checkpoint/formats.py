"""The format of a `model_type` of `config.json`, or of a configuration.

The catalogue of systems (`config/systems.py`) says where each is; only that one is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from bertwright.checkpoint.format import Format
from bertwright.checkpoint.model_folder import short
from bertwright.config.bert import BertConfig
from bertwright.config.runs.word_vectors import WordVectorsConfig
from bertwright.config.systems import SYSTEMS
from bertwright.errors import ConfigError, DataError

FROM_FILES = "word-vectors"
"""Of vectors that came from a file of another program: no system trains them."""


def format_called(model_type: str) -> Format[Any]:
    """The format of a `model_type`, one of the catalogue or `FROM_FILES`."""
    if model_type == FROM_FILES:
        return _resolve("bertwright.checkpoint.native.word_vectors:FROM_FILES")
    return _resolve(SYSTEMS[model_type].format)


def _resolve(name: str) -> Format[Any]:
    found = resolve_name(name)
    assert isinstance(found, Format)
    return found


def format_named(content: Mapping[str, Any], path: Path) -> Format[Any]:
    """The format of a `config.json`; the oldest ones of BERT have no `model_type`.

    Raises:
        DataError: a `model_type` that has none.
    """
    name, known = content.get("model_type", "bert"), [*SYSTEMS, FROM_FILES]
    if not isinstance(name, str) or name not in known:
        raise DataError(
            f"'model_type' in {path} is {short(name)}; expected one of {', '.join(known)}: take "
            "a model of that type (most of BGE, E5 in English, GTE and MiniLM are BERTs), or run "
            "this one with transformers"
        )
    return format_called(name)


def format_of(config: object) -> Format[Any]:
    """The format of a configuration, an encoder's `encoder.config`.

    Raises:
        ConfigError: none has configurations of this class.
    """
    if type(config) is WordVectorsConfig:
        return format_called(FROM_FILES)
    for name, run in SYSTEMS.items():
        if type(config) in map(type, run.presets.values()):
            return format_called(name)
    raise ConfigError(
        f"no format stores a model with a {type(config).__name__} as its configuration; there are "
        f"{', '.join(SYSTEMS)} (config/systems.py)"
    )


def only_bert(config: object, what: str) -> BertConfig:
    """The configuration, where only a BERT will do.

    Raises:
        ConfigError: it is another model's.
    """
    if type(config) is not BertConfig:
        raise ConfigError(
            f"{what} is for BERT only; this model is a {format_of(config).model_type}"
        )
    return config
