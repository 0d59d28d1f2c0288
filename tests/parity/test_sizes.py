"""The six published sizes have the published numbers of parameters, as transformers counts them."""

from __future__ import annotations

import pytest
import torch

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.config.values import to_dict
from bertwright.models.bert.config import PRESETS

transformers = pytest.importorskip("transformers")

PUBLISHED = {
    "bert-tiny": 4_385_920,
    "bert-mini": 11_170_560,
    "bert-small": 28_763_648,
    "bert-medium": 41_373_184,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
}


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_every_preset_is_here() -> None:
    assert set(PUBLISHED) == set(PRESETS)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters(name: str) -> None:
    config = PRESETS[name]
    with torch.device("meta"):
        learner = make_learner(config, ["masked_lm", "next_sentence"])
        theirs = transformers.BertModel(transformers.BertConfig(**to_dict(config)))
    assert count(learner.encoder) == PUBLISHED[name] == count(theirs)
    hidden, vocabulary = config.hidden_size, config.vocab_size
    masked_lm = hidden * hidden + hidden + 2 * hidden + vocabulary
    assert count(learner) == PUBLISHED[name] + masked_lm + 2 * hidden + 2
