"""Begin linear heads as the layers that were fitted on the frozen encoder's vectors.

Fine-tuning from a random head bends the features toward that head first, which costs most where
labels are few (Kumar et al. 2022, "Fine-Tuning can Distort Pretrained Features and Underperform
Out-of-Distribution"). The fitted layers are evaluated before the first step, so a model is never
worse on dev than its own features.

Training then begins from a layer of classes in the same direction, but as small as a random one: at
its own size it fits the training examples so well that nothing is left for the encoder to learn. A
layer that predicts a number keeps its size, which is in the unit of the number. Both are measured
in experiments/finetuning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from bertwright.nn.objective import Learner
from bertwright.transfer.linear import LinearFit


@dataclass(frozen=True)
class HeadStart:
    """The fitted layers of new heads, by the names of their tasks."""

    fits: Mapping[str, LinearFit]
    norms: Mapping[str, float | None]
    """The norms of the weights that training begins from; None: that of the fitted layer."""

    def place_fitted(self, learner: Learner) -> None:
        """Set the heads to the fitted layers."""
        for name, fit in self.fits.items():
            place(learner, name, fit)

    def place_to_train(self, learner: Learner) -> None:
        """Set the heads to the layers that training begins from."""
        for name, fit in self.fits.items():
            norm, own = self.norms[name], float((fit.weight**2).sum() ** 0.5)
            place(learner, name, fit, 1.0 if norm is None or not own else min(1.0, norm / own))


@torch.no_grad()
def place(learner: Learner, name: str, fit: LinearFit, factor: float = 1.0) -> None:
    """Set the linear layer of a head to a fitted one, times a factor."""
    head = learner.objectives[name]
    head.get_parameter("classifier.weight").copy_(torch.from_numpy(fit.weight * factor))
    head.get_parameter("classifier.bias").copy_(torch.from_numpy(fit.bias * factor))
