"""More rows for the token embeddings of a trained BERT, and for the bias of its masked LM.

    e_new = mean of e_p over the wordpieces p that the new entry replaces

(Yao et al. 2021, *Adapt-and-Distill*; Gee et al. 2022, *Fast Vocabulary Transfer*.) An entry that
replaces nothing, a new character, begins as the mean of all rows (Hewitt 2021, *Initializing New
Word Embeddings for Pretrained Language Models*), which bounds what it takes from the others. The
output is tied, so the same row scores the word; its bias starts from the mean of the same biases.

Letters: V vocabulary, H hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.config.task import TaskConfig
from bertwright.models.catalogue import system_that
from bertwright.nn.objective import Learner


def extend_learner(
    learner: Learner,
    config: Any,
    tasks: Mapping[str, TaskConfig],
    first: int,
    pieces: Sequence[Sequence[int]],
) -> tuple[Learner, Any]:
    """A learner with more entries.

    Args:
        learner: with the old vocabulary; it is left as it is.
        config: of its model.
        tasks: of its task heads.
        first: id of the first new entry: the tokenizer's size. Rows of the model from there on
            belong to no token and are overwritten.
        pieces: of each new entry, the old ids it replaces; none: it begins as the mean of all.

    Returns:
        The learner, and its configuration.

    Raises:
        ConfigError: a model whose vocabulary cannot be extended.
    """
    system = system_that(lambda system: bool(system.vocabulary), config, "a larger vocabulary")
    state = dict(learner.state_dict())
    size = max(config.vocab_size, first + len(pieces))
    for name in system.vocabulary:
        if name in state:
            state[name] = _grown(state[name], first, size, pieces)
    grown = replace(config, vocab_size=size)
    pretrained = [name for name in learner.objectives if name not in tasks]
    with torch.device("meta"):
        larger = make_learner(grown, pretrained, tasks)
    larger.load_state_dict({name: value.clone() for name, value in state.items()}, assign=True)
    return larger, grown


def _grown(old: Tensor, first: int, size: int, pieces: Sequence[Sequence[int]]) -> Tensor:
    """`[V]` or `[V, H]` -> the same with the new entries from `first` on."""
    new = old.new_zeros(size, *old.shape[1:])
    new[: len(old)] = old
    whole = old[:first].mean(0)
    for position, ids in enumerate(pieces, first):
        new[position] = old[list(ids)].mean(0) if ids else whole
    return new
