"""Token embeddings that train only the rows of the tokens of a task.

A few thousand texts have a few thousand different tokens. No gradient reaches the other rows: AdamW
only lets them decay, all by the same factor. The trained table therefore consists of the rows of
the task's tokens and one row of ones, which no token reads and which decays by the factor of all
other rows. The whole table is half of the weights of a small or a multilingual BERT; its gradients
and moments are thus neither computed nor stored.

Letters: V entries of the vocabulary, K tokens of the task, N tokens of a batch, H hidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.nn.objective import Learner, Objective

MOST = 0.75
"""The largest fraction of the vocabulary for which a table of the task's tokens is used; a larger
one saves nothing."""


def train_task_words(learner: Learner, ids: Iterable[int]) -> None:
    """Train only the rows `ids` of an encoder's token embeddings; the encoder is changed in place.

    `ids` are all token ids of the training data, with repetitions; those beyond the table, which
    stand for spelled words, have no row to train. The results of the learner and its `state_dict`
    stay the same. Call this function when the learner is on its device, before optimizers are
    created.

    The learner is not changed if its encoder has no table of token embeddings, if an objective
    multiplies by the whole table, or if the ids are more than a fraction `MOST` of the vocabulary.
    """
    encoder = learner.encoder
    embedding = encoder.token_embedding()
    size = 0 if embedding is None else embedding.num_embeddings
    task_ids = sorted(id for id in set(ids) if id < size)
    objectives = cast("Iterable[Objective[Any]]", learner.objectives.values())
    reads = any(objective.reads_embeddings for objective in objectives)
    if embedding is None or reads or len(task_ids) > MOST * len(embedding.weight):
        return
    table = embedding.weight
    words = TaskWords(table, torch.tensor(task_ids, device=table.device))
    (name,) = (name for name, module in encoder.named_modules() if module is embedding)
    encoder.set_submodule(name, words)


class TaskWords(nn.Module):
    """An embedding of V tokens that trains `weight` `[K + 1, H]`."""

    def __init__(self, table: Tensor, ids: Tensor) -> None:
        """Build the embedding from the whole table `[V, H]` and the distinct ids of its trained
        rows, `[K]`."""
        super().__init__()
        # These are plain tensors, because DDP sends buffers to every rank at each step.
        self._table, self._ids = table.detach(), ids
        self._rows = ids.new_full((len(table),), len(ids))  # [V], K for tokens without a row
        self._rows[ids] = torch.arange(len(ids), device=ids.device)
        ones = table.new_ones(1, table.shape[1])
        self.weight = nn.Parameter(torch.cat([self._table[ids], ones]))

    def forward(self, input_ids: Tensor) -> Tensor:
        """Return the vectors of tokens, trained or not: `[N]` -> `[N, H]`."""
        rows = self._rows.index_select(0, input_ids)
        x = F.embedding(rows, self.weight)
        others = (rows == len(self._ids))[:, None]
        # Both tables are read for all tokens: selecting tokens would make the host wait for a GPU.
        return torch.where(others, F.embedding(input_ids, self._table) * self._decay(), x)

    def whole(self) -> Tensor:
        """Return the whole table in its current state, `[V, H]`."""
        trained = self.weight.detach()
        return (self._table * self._decay()).index_copy_(0, self._ids, trained[:-1])

    def _decay(self) -> Tensor:
        """Return the factor by which the other rows have decayed, `[H]`."""
        return self.weight[-1].detach()

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Save the whole table under the name of an embedding's weight."""
        destination[prefix + "weight"] = self.whole()
