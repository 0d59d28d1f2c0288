"""The catalogue of formats: one entry a `model_type` of `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertwright.checkpoint.format import Format
from bertwright.checkpoint.huggingface.bert import BERT
from bertwright.checkpoint.model_folder import short
from bertwright.config.bert import BertConfig
from bertwright.errors import ConfigError, DataError

FORMATS: dict[str, Format[Any]] = {BERT.model_type: BERT}
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
    if not isinstance(config, BertConfig):
        raise ConfigError(
            f"{what} is for BERT only; this model is a {format_of(config).model_type}"
        )
    return config
