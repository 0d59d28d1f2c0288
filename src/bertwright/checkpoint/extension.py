"""Extend the vocabulary of a trained model: add rows to its token embeddings and to the bias of its
masked LM.

    e_new = mean of e_p over the wordpieces p that the new entry replaces

(Yao et al. 2021, *Adapt-and-Distill*; Gee et al. 2022, *Fast Vocabulary Transfer*.) An entry that
replaces no wordpieces, such as a new character, is initialized to the mean of all rows (Hewitt
2021, *Initializing New Word Embeddings for Pretrained Language Models*), which bounds the
probability that it takes from the other entries. The output layer is tied to the embeddings, so the
same row scores the entry; its bias is initialized to the mean of the corresponding biases.

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
from bertwright.models.load import system_that
from bertwright.nn.objective import Learner


def extend_learner(
    learner: Learner,
    config: Any,
    tasks: Mapping[str, TaskConfig],
    first: int,
    pieces: Sequence[Sequence[int]],
) -> tuple[Learner, Any]:
    """Return a copy of a learner whose vocabulary has more entries.

    Args:
        learner: the learner with the old vocabulary; it is not changed.
        first: the id of the first new entry, which is the size of the tokenizer. Rows of the model
            from this id on belong to no token and are overwritten.
        pieces: for each new entry, the old ids that it replaces; empty: the entry is initialized
            to the mean of all rows.

    Returns:
        The new learner, and its configuration.
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
    """Return a tensor of `size` rows with the rows of `old` and the new entries from `first` on.

    Args:
        old: `[V]` or `[V, H]`.
        first: the id of the first new entry.
        size: the number of rows of the result.
        pieces: as for `extend_learner`.
    """
    new = old.new_zeros(size, *old.shape[1:])
    new[: len(old)] = old
    whole = old[:first].mean(0)
    for position, ids in enumerate(pieces, first):
        new[position] = old[list(ids)].mean(0) if ids else whole
    return new
