"""The contrast of neighbouring sequences, which teaches the mean of a text what the text is about.

Two sequences that follow each other in a document have more similar mean vectors than sequences of
other documents (cf. Giorgi et al. 2021, "DeCLUTR: Deep Contrastive Learning for Unsupervised
Textual Representations"). For each sequence, the others of the step are scored by the cosine with
it, and its neighbour should have the highest score. Sequences are encoded one by one, with the
masks of the masked LM, so the objective needs no pass of its own, and no weights.

Letters: R sequences, H hidden.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.nn.encoder import Encoded, Encoder
from bertwright.nn.features import pool
from bertwright.nn.objective import RowLosses, StepObjective

TEMPERATURE = 0.05
"""The number by which cosines are divided, as of Gao et al. 2021, "SimCSE"."""


class NeighbourContrast(StepObjective[MaskedBatch]):
    """The objective that finds the neighbour of each sequence among the others of a step."""

    title = "neighbours"
    factor = 0.1

    def __init__(self, config: BertConfig, encoder: Encoder) -> None:
        """Build the objective, which has no weights."""
        super().__init__()

    def count(self, batch: MaskedBatch) -> int:
        """Return the number of sequences that have a neighbour."""
        assert batch.neighbours is not None
        return int((batch.neighbours >= 0).sum())

    def vectors(self, encoded: Encoded, batch: MaskedBatch) -> Tensor:
        """Return the mean of each sequence, of length 1, `[R, H]`."""
        means = pool(encoded.last, encoded.sequences, "mean")
        return F.normalize(means.float(), dim=1)

    def facts(self, batch: MaskedBatch) -> Tensor:
        """Return the number of the pair to which each sequence belongs, `[R, 1]`; -1: to none."""
        assert batch.neighbours is not None
        return batch.neighbours.to("cpu", torch.float64)[:, None]

    def step_loss(self, vectors: Tensor, facts: Tensor) -> RowLosses:
        """Return the cross-entropy of each sequence's neighbour among all others of the step.

        A sequence that has no neighbour, or whose neighbour is in another step, has the loss 0.
        """
        pairs = facts[:, 0]
        same = (pairs[:, None] == pairs[None, :]) & (pairs >= 0)[:, None]
        same.fill_diagonal_(False)
        has_one = same.any(1).to(vectors.device)
        wanted = same.long().argmax(1).to(vectors.device)
        itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
        scores = (vectors @ vectors.T / TEMPERATURE).masked_fill(itself, -1e4)
        losses = F.cross_entropy(scores, wanted, reduction="none") * has_one
        return RowLosses(losses, ((scores.argmax(1) == wanted) & has_one).double())
