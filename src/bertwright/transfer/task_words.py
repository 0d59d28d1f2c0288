"""Token embeddings of which only the rows that a task reads are trained.

A few thousand texts have a few thousand different tokens, and no gradient reaches the rows of the
others: AdamW only lets them decay, all by one factor. So the table that is trained has the rows of
the task's tokens, and one of ones that nothing reads and that decays as the others would: it is
their factor. The whole table is half of the weights of a small BERT or a multilingual one: its
gradients and moments are neither stored nor computed.

Letters: V entries of the vocabulary, K of the task, N tokens, H hidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.nn.objective import Learner

# With more of the vocabulary than this a table of its own saves nothing.
MOST = 0.75


def train_task_words(learner: Learner, ids: Iterable[int]) -> None:
    """Train only these rows of an encoder's token embeddings, in place.

    What the learner computes and its `state_dict` stay as they were. To be called on the device
    where it is trained, before optimizers are made.

    Args:
        learner: without such a table, or with an objective that reads all of it, nothing changes.
        ids: all that it will be trained on, as often as they occur.
    """
    encoder = learner.encoder
    embedding = encoder.token_embedding()
    own = sorted(set(ids)) if embedding is not None else []
    reads = any(getattr(each, "reads_embeddings", False) for each in learner.objectives.values())
    if embedding is None or reads or len(own) > MOST * len(embedding.weight):
        return
    table = embedding.weight
    words = TaskWords(table, torch.tensor(own, device=table.device))
    (name,) = (name for name, module in encoder.named_modules() if module is embedding)
    encoder.set_submodule(name, words)


class TaskWords(nn.Module):
    """An embedding of V tokens, `weight [K + 1, H]` of which is trained."""

    def __init__(self, table: Tensor, ids: Tensor) -> None:
        """The whole table `[V, H]`, and which of its rows are trained, `[K]`, each once."""
        super().__init__()
        # plain tensors: DDP sends buffers to every rank at each step
        self._table, self._ids = table.detach(), ids
        self._rows = ids.new_full((len(table),), len(ids))  # [V], K for tokens that have no row
        self._rows[ids] = torch.arange(len(ids), device=ids.device)
        ones = table.new_ones(1, table.shape[1])
        self.weight = nn.Parameter(torch.cat([self._table[ids], ones]))

    def forward(self, input_ids: Tensor) -> Tensor:
        """`[N]` -> `[N, H]`; tokens that are not trained, as held-out texts have them, too."""
        rows = self._rows.index_select(0, input_ids)
        x = F.embedding(rows, self.weight)
        others = (rows == len(self._ids))[:, None]
        # all rows are looked up: to ask which are others would make the host wait for a GPU
        return torch.where(others, F.embedding(input_ids, self._table) * self._decay(), x)

    def whole(self) -> Tensor:
        """The whole table as it is now, `[V, H]`."""
        trained = self.weight.detach()
        return (self._table * self._decay()).index_copy_(0, self._ids, trained[:-1])

    def _decay(self) -> Tensor:
        """The factor of the rows that are not trained, `[H]`."""
        return self.weight[-1].detach()

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """An embedding's one entry, whole."""
        destination[prefix + "weight"] = self.whole()
