"""Cross-entropy against a whole vocabulary, without keeping its logits.

`-log softmax(x W^T + b)[label]`, summed over rows. A block of logits becomes its own gradient in
place, while it is still in cache (the idea of Liger-Kernel's fused cross-entropy, Hsu et al. 2024):
the logits of all K rows exist once, in the precision of x.

Letters: K rows, H hidden, V vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# Logits are widened to float32 block by block; one block of a CPU stays in its cache.
BLOCK, BLOCK_CUDA = 1 << 19, 1 << 28


class VocabularyLoss(NamedTuple):
    """Summed cross-entropy, and the number of rows whose best guess is the label."""

    total: Tensor
    correct: Tensor


def vocabulary_loss(x: Tensor, weight: Tensor, bias: Tensor, labels: Tensor) -> VocabularyLoss:
    """Cross-entropy of labels under `x weight^T + bias`.

    Args:
        x: `[K, H]`.
        weight: `[V, H]`, the tied token embeddings.
        bias: `[V]`.
        labels: `[K]`.

    Returns:
        Two scalars, float32 and int64.
    """
    if torch.is_autocast_enabled(x.device.type):
        weight = weight.to(x.dtype)
    total, correct = _VocabularyLoss.apply(x, weight, bias, labels)  # type: ignore[no-untyped-call]
    return VocabularyLoss(total, correct)


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        logits = F.linear(x, weight, bias.to(x.dtype))  # [K, V], turned into its own gradient
        exact = torch.promote_types(bias.dtype, torch.float32)
        total = torch.zeros((), dtype=exact, device=x.device)
        correct = torch.zeros((), dtype=torch.int64, device=x.device)
        d_bias = torch.zeros_like(bias, dtype=exact)
        rows = max(1, (BLOCK_CUDA if x.is_cuda else BLOCK) // weight.shape[0])
        for start in range(0, len(labels), rows):
            block, gold = logits[start : start + rows], labels[start : start + rows, None]
            wide = block.to(total.dtype, copy=True)
            highest = wide.amax(1, keepdim=True)
            gold_logit = wide.gather(1, gold)
            odds = wide.sub_(highest).exp_()
            odds_sum = odds.sum(1, keepdim=True)
            total += (highest + odds_sum.log() - gold_logit).sum()
            correct += (highest <= gold_logit).sum()
            probabilities = odds.div_(odds_sum)
            block.copy_(probabilities.scatter_add_(1, gold, -torch.ones_like(gold_logit)))
            d_bias += probabilities.sum(0)
        ctx.save_for_backward(x, weight, bias, labels, logits, d_bias)
        ctx.mark_non_differentiable(correct)
        return total, correct

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, labels, d_logits, d_bias = ctx.saved_tensors
        if torch.is_grad_enabled():  # it is differentiated itself: the logits must have a graph
            logits = F.linear(x, weight, bias.to(x.dtype)).to(d_bias.dtype)
            total = F.cross_entropy(logits, labels, reduction="sum")
            inputs = [part for part in (x, weight, bias) if part.requires_grad]
            found = iter(torch.autograd.grad(total, inputs, gradient, create_graph=True))
            return *(next(found) if p.requires_grad else None for p in (x, weight, bias)), None
        d_x = (d_logits @ weight) * gradient.to(weight.dtype)
        d_weight = d_logits.t() @ (x * gradient.to(x.dtype))
        return d_x, d_weight, (d_bias * gradient).to(bias.dtype), None
