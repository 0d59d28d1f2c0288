"""Cross-entropy over a whole vocabulary, fused with the product that computes the logits.

The loss is `-log softmax(x W^T + b)[label]`, summed over rows. With label smoothing (Szegedy et al.
2016, section 7) it is `1 - smoothing` times that plus `smoothing` times its mean over all labels.
Each block of logits is overwritten by its own gradient while it is still in cache, as in
Liger-Kernel's fused cross-entropy (Hsu et al. 2024): the logits of all K rows exist once, in the
precision of x.

For very large vocabularies, training may use a sample of the vocabulary instead (`sampled_loss`).

Letters: K rows, H hidden, V vocabulary, S samples.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from bertwright.cpu_threads import generator_on

# Logits are converted to float32 block by block; on a CPU a block stays in the cache.
BLOCK, BLOCK_CUDA = 1 << 19, 1 << 28
COLUMNS = 64
"""On a GPU the vocabulary is padded to a multiple of this number: fast matrix products need rows
that begin at a multiple of 16 bytes, which vocabularies such as BERT's 30,522 and GPT-2's 50,257 do
not give.
"""


class VocabularyLoss(NamedTuple):
    """The summed cross-entropy, and the number of rows whose most probable token is the label."""

    total: Tensor
    correct: Tensor


def vocabulary_loss(
    x: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, smoothing: float = 0.0
) -> VocabularyLoss:
    """Return the cross-entropy of labels given the logits `x weight^T + bias`.

    Args:
        x: `[K, H]`, or more rows, which are padding after those that have labels.
        weight: `[V, H]`, the tied token embeddings.
        bias: `[V]`.
        labels: `[K]`.
        smoothing: fraction of the target distribution that is uniform over the vocabulary.

    Returns:
        Two scalars, in float32 and int64.
    """
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight = x.to(dtype), weight.to(dtype)
    total, correct = _VocabularyLoss.apply(x, weight, bias, labels, smoothing)  # type: ignore[no-untyped-call]
    return VocabularyLoss(total, correct)


def log_uniform(count: int, samples: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Draw negative samples by Zipf's law from a vocabulary in order of frequency.

    Token r has probability `log((r + 2) / (r + 1)) / log(V + 1)`.

    Args:
        count: V.
        samples: S, drawn with replacement by torch's generator.
        device: the device of the results.

    Returns:
        `[S]` ids, and `[V]` the logarithm of each token's expected count among them.
    """
    uniform = torch.rand(samples, device=device, generator=generator_on(device))
    drawn = (uniform * math.log(count + 1)).exp().long() - 1
    ranks = torch.arange(count, device=device)
    odds = ((ranks + 2) / (ranks + 1)).log() / math.log(count + 1)
    return drawn.clamp(0, count - 1), (samples * odds).log()


def sampled_loss(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    labels: Tensor,
    samples: Tensor,
    log_expected: Tensor,
) -> VocabularyLoss:
    """Return the cross-entropy of labels against samples of the vocabulary.

    Jean et al. 2015, "On using very large target vocabulary for neural machine translation",
    section 3. The sum over the other tokens is estimated by importance sampling: the logit of a
    sample is lowered by the logarithm of the expected count of its token. Samples that equal the
    label of a row are ignored in that row.

    Args:
        x: `[K, H]`.
        weight: `[V, H]`.
        bias: `[V]`.
        labels: `[K]`.
        samples: `[S]` ids.
        log_expected: `[V]`.
    """
    gold = (x * weight[labels]).sum(1) + bias[labels]  # [K]
    others = F.linear(x, weight[samples], (bias - log_expected)[samples])  # [K, S]
    others = others.masked_fill(samples == labels[:, None], float("-inf")).float()
    total = (torch.logaddexp(gold.float(), others.logsumexp(1)) - gold.float()).sum()
    return VocabularyLoss(total, (gold >= others.amax(1)).sum())


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        sums = _Sums(bias, smoothing)
        on_gpu = is_on_gpu(x)
        weights, biases = _padded(weight, bias.to(x.dtype)) if on_gpu else (weight, bias)
        logits = F.linear(x, weights, biases.to(x.dtype))  # [K, V], turned into its own gradient
        rows = max(1, (BLOCK_CUDA if on_gpu else BLOCK) // weight.shape[0])
        for start in range(0, len(labels), rows):
            gold = labels[start : start + rows, None]
            block = logits[start : start + len(gold)]
            if on_gpu:
                sums.add_in_few_passes(block, gold)
            else:
                sums.add_in_cache(block, gold)
        logits[len(labels) :] = 0.0
        ctx.save_for_backward(x, weight, bias, labels, weights, logits, sums.d_bias)
        ctx.smoothing = smoothing
        ctx.mark_non_differentiable(sums.correct)
        return sums.total, sums.correct

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, labels, weights, d_logits, d_bias = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative: the logits must have a graph
            logits = F.linear(x[: len(labels)], weight, bias.to(x.dtype)).to(d_bias.dtype)
            total = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=ctx.smoothing)
            inputs = [part for part in (x, weight, bias) if part.requires_grad]
            computed = iter(torch.autograd.grad(total, inputs, gradient, create_graph=True))
            return (
                *(next(computed) if p.requires_grad else None for p in (x, weight, bias)),
                None,
                None,
            )
        d_x = (d_logits @ weights) * gradient.to(weight.dtype)
        d_weight = (d_logits.t() @ (x * gradient.to(x.dtype)))[: len(weight)]
        return d_x, d_weight, (d_bias * gradient).to(bias.dtype), None, None


def is_on_gpu(x: Tensor) -> bool:
    """Return whether a tensor is on a CUDA device; the loss then has other blocks."""
    return x.is_cuda


def _padded(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights `[V, H]` and biases `[V]` padded to a multiple of `COLUMNS` rows; the logits
    of the added rows are -inf."""
    more = -len(weight) % COLUMNS
    return F.pad(weight, (0, 0, 0, more)), F.pad(bias, (0, more), value=-math.inf)


class _Sums:
    """Sums the loss over blocks of logits and overwrites each block with its gradient."""

    def __init__(self, bias: Tensor, smoothing: float) -> None:
        exact = torch.promote_types(bias.dtype, torch.float32)
        self.total = torch.zeros((), dtype=exact, device=bias.device)
        self.correct = torch.zeros((), dtype=torch.int64, device=bias.device)
        self.d_bias = torch.zeros_like(bias, dtype=exact)
        self.smoothing, self.vocabulary = smoothing, len(bias)

    def add_in_cache(self, block: Tensor, gold: Tensor) -> None:
        """Add a block `[k, V]` with its labels `[k, 1]`, for a CPU, whose cache holds the block."""
        smoothing = self.smoothing
        wide = block.to(self.total.dtype, copy=True)
        highest = wide.amax(1, keepdim=True)
        gold_logit = wide.gather(1, gold)
        target = (1 - smoothing) * gold_logit
        if smoothing:
            target = target + smoothing * wide.mean(1, keepdim=True)
        odds = wide.sub_(highest).exp_()
        odds_sum = odds.sum(1, keepdim=True)
        self.total += (highest + odds_sum.log() - target).sum()
        self.correct += (highest <= gold_logit).sum()
        probabilities = odds.div_(odds_sum)
        if smoothing:
            probabilities -= smoothing / self.vocabulary
        off = torch.full_like(gold_logit, smoothing - 1)
        block.copy_(probabilities.scatter_add_(1, gold, off))
        self.d_bias += probabilities.sum(0)

    def add_in_few_passes(self, block: Tensor, gold: Tensor) -> None:
        """Add a block `[k, V or more]` with its labels `[k, 1]`, for a GPU, whose memory is read as
        few times as possible; columns from V on are -inf."""
        smoothing = self.smoothing
        real = block[:, : self.vocabulary]
        self.correct += (block.amax(1, keepdim=True) <= block.gather(1, gold)).sum()
        logs = block.log_softmax(1, dtype=self.total.dtype)
        of_gold = logs.gather(1, gold)
        target = (1 - smoothing) * of_gold
        if smoothing:
            target = target + smoothing * logs[:, : self.vocabulary].mean(1, keepdim=True)
        self.total -= target.sum()
        torch.exp(logs, out=block)
        if smoothing:
            real -= smoothing / self.vocabulary
        d_gold = of_gold.exp() - (1 - smoothing) - smoothing / self.vocabulary
        block.scatter_(1, gold, d_gold.to(block.dtype))
        self.d_bias += real.sum(0, dtype=self.d_bias.dtype)
