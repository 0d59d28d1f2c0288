"""The loss of a whole step, for objectives that relate its vectors to each other.

Gao, Zhang, Han and Callan, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
Setup" (RepL4NLP 2021): the gradient of such a loss to the weights is the sum over micro-batches of
its gradient to their vectors times the gradient of the vectors. The first factor needs vectors
only, which are few numbers; the second is computed part by part.

Letters: R vectors of a rank, W numbers of a vector, K facts of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from bertwright.nn.batch import Batch, StepShare
from bertwright.nn.objective import StepObjective
from bertwright.train.distributed import Ranks


def share(
    objective: StepObjective[Batch],
    batches: Sequence[Batch],
    vectors: Sequence[Tensor],
    ranks: Ranks,
) -> list[Batch]:
    """Return the micro-batches of this rank, each with the gradients of its vectors.

    `vectors` are those of each micro-batch, `[R, W]`, without a graph. The vectors of all ranks
    take part in the loss.
    """
    sizes = [len(each) for each in vectors]
    facts = torch.cat([objective.facts(batch) for batch in batches])
    whole, all_facts, start = ranks.join_rows(torch.cat(list(vectors)), facts)
    leaf = whole.detach().float().requires_grad_()
    with torch.enable_grad(), torch.autocast(leaf.device.type, enabled=False):
        losses, right = objective.step_loss(leaf, all_facts)
        (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    own = slice(start, start + sum(sizes))
    gradients = torch.split(gradient[own], sizes)
    totals = [part.sum() for part in torch.split(losses.detach()[own], sizes)]
    corrects: list[Tensor | None] = [None] * len(sizes)
    if right is not None:
        corrects = [part.sum() for part in torch.split(right[own], sizes)]
    return [
        replace(batch, share=StepShare(of_vectors, total, correct))
        for batch, of_vectors, total, correct in zip(
            batches, gradients, totals, corrects, strict=True
        )
    ]
