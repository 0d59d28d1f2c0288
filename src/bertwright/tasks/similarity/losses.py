"""The losses of sentence vectors, over all examples of a step.

With u and v the vectors of the two texts of an example, scaled to length 1, c = u . v, and the
temperature t:

- `in-batch`: the mean of two cross-entropies (van den Oord et al. 2018; Gao et al. 2021, "SimCSE").
  The first is -log softmax of u . w / t over all second texts and hard negatives w of the step, at
  the example's second text; the second is the same from the second text over all first texts.
- `triplet`: max(0, m - c + u . n), the mean over the hard negatives n (Schroff et al. 2015).
- `cosent`: log(1 + sum of exp((c_j - c_i) / t) over all i, j with scores y_i > y_j) (Su 2022,
  "CoSENT").
- `teacher`: the squared distance between the vectors of a text by the model and by the teacher, if
  they have the same width (Reimers and Gurevych 2020). Otherwise, the divergence KL(p || q), where
  p and q are the softmax, by the teacher and by the model, of the text's cosines with all other
  texts of the step, divided by t. The loss is the mean over all texts.

A text of the step that equals the right one, or that belongs to the same text, is not a negative.
With `sizes`, the loss is the mean of the losses of truncated vectors, which have the first
dimensions of each size, and of the whole vectors (Kusupati et al. 2022, "Matryoshka Representation
Learning").

Letters: R vectors of a step, W the width of a vector, E examples, M second texts and hard
negatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bertwright.nn.host import send
from bertwright.nn.objective import RowLosses
from bertwright.tasks.similarity.options import SimilarityTask

FIRST, SECOND, HARD = 0, 1, 2
"""The roles of a text: the first of its example, the second, and a hard negative."""


@dataclass(frozen=True)
class Rows:
    """The roles and labels of the vectors of a step, on the device of the vectors."""

    first: Tensor
    """`[E]`: the rows of first texts."""
    second: Tensor
    """`[E]`: the rows of second texts, in the same order."""
    others: Tensor
    """`[M]`: the rows of second texts and hard negatives."""
    targets: Tensor
    """`[E]`: the index in `others` of each example's second text."""
    example: Tensor
    """`[M]`: the index of the example that each of the others belongs to."""
    hard: Tensor
    """`[M]`: whether each of the others is a hard negative."""
    excluded: Tensor
    """`[E, M]`: whether each of the others is neither a negative of a first text nor the second
    text of its example.
    """
    excluded_back: Tensor
    """`[E, E]`: whether each first text is neither a negative of a second text nor the first text
    of its example.
    """
    labels: Tensor
    """`[E]` float32: the scores."""


def make_rows(facts: Tensor, device: torch.device) -> Rows:
    """Return the rows of a step from its facts, `[R, 3]` on the host: role, key and label.

    The texts of an example are neighbours, the first text at the beginning. Equal texts have equal
    keys.
    """
    roles, keys, labels = facts.unbind(1)
    example = (roles == FIRST).long().cumsum(0) - 1
    first, second = (roles == FIRST).nonzero()[:, 0], (roles == SECOND).nonzero()[:, 0]
    others = (roles != FIRST).nonzero()[:, 0]
    hard = roles[others] == HARD
    targets = (~hard).nonzero()[:, 0]
    of_others = example[others]
    key, key2, other_keys = keys[first], keys[second], keys[others]
    excluded = other_keys[None] == key2[:, None]  # the same as the right text
    excluded |= other_keys[None] == key[:, None]
    excluded |= (key[of_others][None] == key[:, None]) & ~hard[None]  # also right
    excluded[torch.arange(len(first)), targets] = False
    back = (key[None] == key[:, None]) | (key[None] == key2[:, None])
    back |= key2[None] == key2[:, None]
    back.fill_diagonal_(False)
    return Rows(
        first=send(first, device),
        second=send(second, device),
        others=send(others, device),
        targets=send(targets, device),
        example=send(of_others, device),
        hard=send(hard, device),
        excluded=send(excluded, device),
        excluded_back=send(back, device),
        labels=send(labels[first].float(), device),
    )


def similarity_loss(x: Tensor, facts: Tensor, task: SimilarityTask) -> RowLosses:
    """Return the losses of a step.

    Args:
        x: the vectors, `[R, W]`.
        facts: the role, key and label of each text, `[R, 3]`; for the objective `teacher`, the
            teacher's vectors follow in further columns.
    """
    widths = [*(size for size in task.options.sizes if size < x.shape[1]), x.shape[1]]
    if task.objective == "teacher":
        wanted = F.normalize(send(facts[:, 3:].float(), x.device), dim=1)
        parts = [_teacher(F.normalize(x[:, :width], dim=1), wanted, task) for width in widths]
        of_examples = (facts[:, 0] == FIRST).sum() / len(facts)
        return RowLosses(torch.stack(parts).mean(0) * float(of_examples), None)
    rows = make_rows(facts[:, :3], x.device)
    loss_of = _LOSSES[task.objective]
    found = [loss_of(F.normalize(x[:, :width], dim=1), rows, task) for width in widths]
    losses = torch.stack([losses for losses, _ in found]).mean(0)  # [E]
    right = found[-1][1]
    nothing = x.new_zeros(len(x))
    return RowLosses(
        nothing.index_add(0, rows.first, losses),
        None if right is None else nothing.index_add(0, rows.first, right.float()),
    )


_Losses = tuple[Tensor, Tensor | None]
"""The loss of each example, and whether its prediction is right, `[E]` each."""


def _in_batch(x: Tensor, rows: Rows, task: SimilarityTask) -> _Losses:
    u, v = x[rows.first], x[rows.others]
    scores = (u @ v.T / task.options.temperature).masked_fill(rows.excluded, -torch.inf)  # [E, M]
    losses = F.cross_entropy(scores, rows.targets, reduction="none")
    back = x[rows.second] @ u.T / task.options.temperature  # [E, E]
    back = back.masked_fill(rows.excluded_back, -torch.inf)
    own = torch.arange(len(u), device=x.device)
    losses = (losses + F.cross_entropy(back, own, reduction="none")) / 2
    return losses, scores.detach().argmax(1) == rows.targets


def _triplet(x: Tensor, rows: Rows, task: SimilarityTask) -> _Losses:
    near = (x[rows.first] * x[rows.second]).sum(1)  # [E]
    example = rows.example[rows.hard]
    far = (x[rows.first][example] * x[rows.others[rows.hard]]).sum(1)
    gaps = (task.options.margin - near[example] + far).relu()
    counts = torch.zeros_like(near).index_add(0, example, torch.ones_like(gaps))
    losses = torch.zeros_like(near).index_add(0, example, gaps) / counts.clamp(min=1)
    wrong = torch.zeros_like(near).index_add(0, example, (far >= near[example]).float())
    return losses, wrong.detach() == 0


def _cosent(x: Tensor, rows: Rows, task: SimilarityTask) -> _Losses:
    cosines = (x[rows.first] * x[rows.second]).sum(1) / task.options.temperature  # [E]
    gaps = cosines[None] - cosines[:, None]  # [E, E]: c_j - c_i
    ordered = rows.labels[:, None] > rows.labels[None]
    gaps = gaps.masked_fill(~ordered, -torch.inf).flatten()
    loss = torch.logsumexp(torch.cat([gaps, gaps.new_zeros(1)]), 0)
    return loss.expand(len(cosines)), None  # the step's loss for each example


def _teacher(x: Tensor, wanted: Tensor, task: SimilarityTask) -> Tensor:
    """Return the loss of each text, `[R]`, from unit vectors `[R, W]` and those of the teacher."""
    if x.shape[1] == wanted.shape[1]:
        return (x - wanted).square().sum(1)
    itself = torch.eye(len(x), dtype=torch.bool, device=x.device)
    ours, theirs = (
        (y @ y.T / task.options.temperature).masked_fill(itself, -1e4).log_softmax(1)
        for y in (x, wanted)
    )
    return (theirs.exp() * (theirs - ours)).sum(1)


_LOSSES: dict[str, Callable[[Tensor, Rows, SimilarityTask], _Losses]] = {
    "in-batch": _in_batch,
    "triplet": _triplet,
    "cosent": _cosent,
}
