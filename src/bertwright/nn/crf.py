"""Linear-chain conditional random field: the tags of a sentence scored together.

Lafferty et al. 2001; over the scores of a network as in Lample et al. 2016, section 2.2:

    s(y) = start[y_1] + sum_t score[t, y_t] + sum_t transitions[y_t, y_t+1] + end[y_T]
    log p(y) = s(y) - log sum_y' exp s(y')

The sum over all paths is the forward algorithm, in log space; with the largest path in place of the
sum it is Viterbi's. It goes over the positions of the longest example, all examples at once, those
that are over left out. The derivative by the score of a tag at a position is the tag's probability,
of the largest path's score 1 on the path and 0 elsewhere: what the backward algorithm, or following
Viterbi's path back, computes (Eisner 2016).

All is float32, also under autocast. Parameters start at 0: then tags are independent, and each has
the probability that softmax gives it.

Letters: W words in all, E examples, C tags, n examples that have a word at a position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from bertwright.nn.ragged import Packing, owners_of, pack

Reduce = Callable[[Tensor, int], Tensor]


def _largest(x: Tensor, axis: int) -> Tensor:
    return x.max(axis).values  # of equal ones the first, which alone gets the derivative


class Crf(nn.Module):
    """Transitions between C tags."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(tags))
        self.end = nn.Parameter(torch.zeros(tags))
        self.transitions = nn.Parameter(torch.zeros(tags, tags))  # from, to

    def log_likelihood(self, scores: Tensor, labels: Tensor, counts: Sequence[int]) -> Tensor:
        """Log-probability of given tags: scores `[W, C]`, labels `[W]` int64, words of each example
        -> `[E]` float32, 0 for an example without words."""
        scores = scores.float()
        gold = self._path_scores(scores, labels, counts)
        packing = pack(counts, scores.device)
        return gold.index_add(0, packing.owners, -self._reduced(scores, packing, torch.logsumexp))

    def decode(self, scores: Tensor, counts: Sequence[int]) -> Tensor:
        """The most probable tags of each example: `[W, C]` -> `[W]` int64."""
        return self._derivatives(scores, counts, _largest).argmax(1)

    def probabilities(self, scores: Tensor, counts: Sequence[int]) -> Tensor:
        """The probability of each tag at each word: `[W, C]` -> `[W, C]` float32, no gradient."""
        return self._derivatives(scores, counts, torch.logsumexp)

    def _derivatives(self, scores: Tensor, counts: Sequence[int], reduce: Reduce) -> Tensor:
        with torch.inference_mode(False), torch.enable_grad():
            leaf = scores.detach().float().clone().requires_grad_()
            total = self._reduced(leaf, pack(counts, leaf.device), reduce).sum()
            return torch.autograd.grad(total, leaf)[0]

    def _path_scores(self, scores: Tensor, labels: Tensor, counts: Sequence[int]) -> Tensor:
        """s(y) of each example: `[E]`."""
        owners = owners_of(counts, scores.device)  # [W]
        at_word = scores.gather(1, labels[:, None])[:, 0]
        opens = torch.ones_like(owners, dtype=torch.bool)
        opens[1:] = owners[1:] != owners[:-1]
        closes = opens.roll(-1)
        after = self.transitions[labels.roll(1), labels]  # [W]: of the tag before to this one
        at_word = at_word + torch.where(opens, self.start[labels], after)
        at_word = at_word + torch.where(closes, self.end[labels], 0.0)
        return scores.new_zeros(len(counts)).index_add(0, owners, at_word)

    def _reduced(self, scores: Tensor, packing: Packing, reduce: Reduce) -> Tensor:
        """s(y) of all y as one number, by `packing.owners`: `[sizes[0]]`."""
        if not packing.sizes:
            return scores.sum(1)  # of no words
        first, *rest = torch.split(scores[packing.order], packing.sizes)
        alpha = self.start + first  # [n, C]
        over = []
        for step in rest:
            over.append(alpha[len(step) :])
            alpha = reduce(alpha[: len(step), :, None] + self.transitions, 1) + step
        return reduce(torch.cat([alpha, *reversed(over)]) + self.end, 1)
