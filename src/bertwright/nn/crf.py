"""Linear-chain conditional random field: the tags of a sentence scored together.

Lafferty et al. 2001; over the scores of a network as in Lample et al. 2016, section 2.2:

    s(y) = start[y_1] + sum_t score[t, y_t] + sum_t transitions[y_t, y_t+1] + end[y_T]
    log p(y) = s(y) - log sum_y' exp s(y')

The sum over all paths is the forward algorithm, in log space; the best path is Viterbi's. Both go
over the positions of the longest example, all examples at once, those that are over left out. The
probability of a tag at a position is the derivative of the log of that sum by its score, which is
what the backward algorithm computes (Eisner 2016).

All is float32, also under autocast. Parameters start at 0: then tags are independent, and each has
the probability that softmax gives it.

Letters: W words in all, E examples, C tags, n examples that have a word at a position.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertwright.nn.ragged import Packing, owners_of, pack


class Crf(nn.Module):
    """Transitions between C tags."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(tags))
        self.end = nn.Parameter(torch.zeros(tags))
        self.transitions = nn.Parameter(torch.zeros(tags, tags))  # from, to

    def log_likelihood(self, scores: Tensor, labels: Tensor, counts: Sequence[int]) -> Tensor:
        """Log-probability of the given tags.

        Args:
            scores: `[W, C]`.
            labels: `[W]` int64.
            counts: words of each example.

        Returns:
            `[E]` float32; 0 for an example without words.
        """
        scores = scores.float()
        gold = self._path_scores(scores, labels, counts)
        packing = pack(counts, scores.device)
        return gold.index_add(0, packing.owners, -self._log_sums(scores, packing))

    def decode(self, scores: Tensor, counts: Sequence[int]) -> Tensor:
        """The most probable tags of each example: `[W, C]` -> `[W]` int64."""
        packing = pack(counts, scores.device)
        if not packing.sizes:
            return torch.zeros(0, dtype=torch.long, device=scores.device)
        with torch.no_grad():
            return self._best_paths(scores.float()[packing.order], packing)[packing.inverse]

    def probabilities(self, scores: Tensor, counts: Sequence[int]) -> Tensor:
        """The probability of each tag at each word: `[W, C]` -> `[W, C]` float32, no gradient."""
        if not len(scores):
            return scores.detach().float()
        with torch.inference_mode(False), torch.enable_grad():
            leaf = scores.detach().float().clone().requires_grad_()
            total = self._log_sums(leaf, pack(counts, leaf.device)).sum()
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

    def _log_sums(self, scores: Tensor, packing: Packing) -> Tensor:
        """log sum of exp s(y) over all y, by `packing.owners`: `[sizes[0]]`."""
        if not packing.sizes:
            return scores.new_zeros(0)
        first, *rest = torch.split(scores[packing.order], packing.sizes)
        alpha = self.start + first  # [n, C]
        over = []
        for step in rest:
            over.append(alpha[len(step) :])
            paths = alpha[: len(step), :, None] + self.transitions  # [n, C, C]
            alpha = paths.logsumexp(1) + step
        return (torch.cat([alpha, *reversed(over)]) + self.end).logsumexp(1)

    def _best_paths(self, scores: Tensor, packing: Packing) -> Tensor:
        """Viterbi over packed scores: `[W, C]` -> `[W]`, packed."""
        first, *rest = torch.split(scores, packing.sizes)
        alpha = self.start + first  # [n, C]
        over, came_from = [], []
        for step in rest:
            over.append(alpha[len(step) :])
            best, before = (alpha[: len(step), :, None] + self.transitions).max(1)
            came_from.append(before)  # [n, C]
            alpha = best + step
        last = (torch.cat([alpha, *reversed(over)]) + self.end).argmax(1)  # [sizes[0]]
        tags = [last[: packing.sizes[-1]]]
        for size, before in zip(reversed(packing.sizes[:-1]), reversed(came_from), strict=True):
            going_on = before.gather(1, tags[-1][:, None])[:, 0]
            tags.append(torch.cat([going_on, last[len(going_on) : size]]))
        return torch.cat(tags[::-1])
