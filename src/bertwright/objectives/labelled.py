"""A batch of labelled examples, as task heads read it.

Letters: B sequences (windows), N tokens in all, E examples, W words, C scores.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bertwright.nn.sequences import Sequences
from bertwright.objectives.objective import Objective


@dataclass(frozen=True)
class LabelledBatch:
    """Windows of examples of one task, end to end, longest first."""

    task: str
    """The head it is for, by the name it has in the learner."""
    input_ids: Tensor
    """[N]"""
    token_type_ids: Tensor
    """[N]"""
    sequences: Sequences
    """The bounds of the B windows."""
    rows: tuple[int, ...]
    """[E]: the number of each example in its data, in the order of scores and labels; a span task
    judges every window by itself, so there E = B, in the order of `sequences`."""
    labels: Tensor | None = None
    """Classification [E] int64, multi-label [E, C] float; regression [E] float; tagging [W] int64;
    span [B, 2] int64, places of the first and last token in the window; multiple choice [E]."""
    owners: Tensor | None = None
    """[B] int64: the example of each window, 0 to E - 1; with multiple choice, the choice of it:
    choices of all examples counted through."""
    words: Tensor | None = None
    """Tagging, [W] int64: place in N of every word's first piece, example by example."""
    counts: tuple[int, ...] = ()
    """Words (tagging) or choices (multiple choice) of each example."""


class Head(Objective):
    """An objective that also predicts."""

    def scores(self, encoded: object, batch: LabelledBatch) -> Tensor:
        """Float32 scores: classification [E, C]; regression [E]; tagging [W, C]; span [N, 2];
        multiple choice [sum of counts]."""
        raise NotImplementedError(f"{type(self).__name__} defines no scores")
