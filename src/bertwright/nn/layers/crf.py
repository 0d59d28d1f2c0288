"""A linear-chain conditional random field: the tags of a sentence are scored together.

Lafferty et al. 2001; over the scores of a network, as in Lample et al. 2016, section 2.2:

    s(y) = start[y_1] + sum_t score[t, y_t] + sum_t transitions[y_t, y_t+1] + end[y_T]
    log p(y) = s(y) - log sum_y' exp s(y')

The forward algorithm sums over all paths in log space; Viterbi's algorithm takes the best path in
place of the sum. Both loop over the positions of the longest example and process all examples that
have a word there at once. The derivative of the sum with respect to the score of a tag is the
probability of that tag; the derivative of the best path's score is 1 on the path and 0 elsewhere.
This replaces the backward algorithm and Viterbi's back-pointers (Eisner 2016).

All computation is in float32, also under autocast. Parameters are initialized to 0: tags are then
independent, with the probabilities of a softmax.

Letters: W words in all, E examples, C tags, n examples that have a word at a position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from bertwright.nn.ragged import Packing, owners_of, pack

Reduce = Callable[[Tensor, int], Tensor]


def _largest(x: Tensor, axis: int) -> Tensor:
    return x.max(axis).values  # of equal scores, only the first gets the derivative


class Crf(nn.Module):
    """A linear-chain CRF over C tags: the scores of transitions, of first tags and of last tags."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(tags))
        self.end = nn.Parameter(torch.zeros(tags))
        self.transitions = nn.Parameter(torch.zeros(tags, tags))  # from, to

    def log_likelihood(self, scores: Tensor, labels: Tensor, counts: Sequence[int]) -> Tensor:
        """Return the log-probability of the given tags of each example.

        Args:
            scores: `[W, C]`.
            labels: `[W]` int64.
            counts: the number of words of each example.

        Returns:
            `[E]` float32; 0 for an example without words.
        """
        scores = scores.float()
        gold = self._path_scores(scores, labels, counts)
        packing = pack(counts, scores.device)
        return gold.index_add(0, packing.owners, -self._reduced(scores, packing, torch.logsumexp))

    def decode(self, scores: Tensor, counts: Sequence[int]) -> Tensor:
        """Return the most probable sequence of tags of each example: `[W, C]` -> `[W]` int64."""
        return self._derivatives(scores, counts, _largest).argmax(1)

    def probabilities(self, scores: Tensor, counts: Sequence[int]) -> Tensor:
        """Return the probability of each tag at each word, without a gradient: `[W, C]` -> `[W, C]`
        float32."""
        return self._derivatives(scores, counts, torch.logsumexp)

    def _derivatives(self, scores: Tensor, counts: Sequence[int], reduce: Reduce) -> Tensor:
        with torch.inference_mode(False), torch.enable_grad():
            leaf = scores.detach().float().clone().requires_grad_()
            total = self._reduced(leaf, pack(counts, leaf.device), reduce).sum()
            return torch.autograd.grad(total, leaf)[0]

    def _path_scores(self, scores: Tensor, labels: Tensor, counts: Sequence[int]) -> Tensor:
        """Return s(y) of each example, `[E]`."""
        owners = owners_of(counts, scores.device)  # [W]
        at_word = scores.gather(1, labels[:, None])[:, 0]
        opens = torch.ones_like(owners, dtype=torch.bool)
        opens[1:] = owners[1:] != owners[:-1]
        closes = opens.roll(-1)
        after = self.transitions[labels.roll(1), labels]  # [W]: from the tag before to this one
        at_word = at_word + torch.where(opens, self.start[labels], after)
        at_word = at_word + torch.where(closes, self.end[labels], 0.0)
        return scores.new_zeros(len(counts)).index_add(0, owners, at_word)

    def _reduced(self, scores: Tensor, packing: Packing, reduce: Reduce) -> Tensor:
        """Reduce s(y) over all y, for the examples in `packing.owners`: `[sizes[0]]`."""
        if not packing.sizes:
            return scores.sum(1)  # there are no words
        first, *rest = torch.split(scores[packing.order], packing.sizes)
        alpha = self.start + first  # [n, C]
        ended = []
        for step in rest:
            ended.append(alpha[len(step) :])
            alpha = reduce(alpha[: len(step), :, None] + self.transitions, 1) + step
        return reduce(torch.cat([alpha, *reversed(ended)]) + self.end, 1)
