"""A small ELMo and the tokens it spells."""

from __future__ import annotations

from bertwright.data.batch import collate
from bertwright.models.elmo.config import ElmoConfig
from bertwright.nn.sequences import Inputs

TOKENS = ["[UNK]", "[B]", "[E]", "a", "the", "straße", "internationally", "x" * 40]
CONFIG = ElmoConfig(
    vocab_size=len(TOKENS),
    max_characters_per_token=20,
    character_size=5,
    filters=((1, 4), (2, 3), (3, 6)),
    n_highway=2,
    dim=7,
    projection_dim=6,
    n_layers=3,
    cell_clip=0.3,
    proj_clip=0.2,
    hidden_dropout_prob=0.0,
)
IDS = [[1, 3, 6, 5, 2], [1, 7, 0, 2], [4]]


def inputs(ids: list[list[int]] = IDS) -> Inputs:
    return collate(ids)[0]
