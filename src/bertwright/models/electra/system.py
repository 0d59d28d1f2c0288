"""ELECTRA as a system: BERT's instances, replaced-token detection, and the head of a generator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bertwright.errors import ConfigError
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import BERT, without_unread_pooler
from bertwright.models.catalogue import MODELS
from bertwright.models.electra.config import ElectraConfig, ElectraRun
from bertwright.models.electra.encoder import Electra
from bertwright.models.electra.huggingface import ElectraLayout
from bertwright.models.electra.replaced_tokens import ReplacedTokens
from bertwright.models.system import (
    initialize_as_published,
    keep_architecture,
)


def trained_with(config: ElectraRun) -> list[str]:
    """Return the only objective of a run."""
    return ["replaced_tokens"]


def continued(config: ElectraRun, found: ElectraConfig, folder: Path) -> Any:
    """Return the configuration of a run that starts from a checkpoint."""
    if not found.generator_hidden_size:
        raise ConfigError(
            f"{folder} has no generator beside it, as published discriminators have none, so "
            "replaced-token detection cannot go on from it: fine-tune it, or pre-train a new one "
            "without --init"
        )
    return keep_architecture(config, found, folder)


ELECTRA = replace(
    BERT,
    row=MODELS["electra"],
    encoder=Electra,
    objectives={"masked_lm": MaskedLM, "replaced_tokens": ReplacedTokens},
    layout=ElectraLayout,
    layouts={},
    vocabulary=(*BERT.vocabulary, "objectives.replaced_tokens.generator.bias"),
    model=without_unread_pooler,
    trained_with=trained_with,
    continued=continued,
    initialize=initialize_as_published,
)
