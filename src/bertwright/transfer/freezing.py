"""The choice of the parameters of an encoder that are trained, and of the step from which on.

Feature-based transfer freezes the encoder (`transfer/features.py`). `top-N` trains the last N
layers. Gradual unfreezing (Howard & Ruder 2018, section 3.3) begins with the last layer and
unfreezes one more in each epoch, so that the first steps of a new head do not destroy pre-trained
weights.

Depths: 0 the embeddings, 1 to L the layers, L + 1 the pooler and the task heads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from bertwright.nn.objective import Learner, Objective


def learn_from(learner: Learner, depth: int) -> None:
    """Train all parameters at `depth` and above, and freeze those below."""
    depth_of = learner.depths()
    for name, parameter in learner.named_parameters():
        parameter.requires_grad_(depth_of[name] >= depth)


def gradual_depth(done: float, epochs: float, layers: int) -> int:
    """Return the lowest depth that is trained after a fraction `done` of a run.

    One more layer is unfrozen per epoch, from the last one down. Where a run has too few `epochs`
    for all `layers`, they are unfrozen at equal intervals over the first half of the run.
    """
    stage = min(1.0, epochs / 2 / (layers + 1))  # epochs
    return max(0, layers - int(done * epochs / stage + 1e-9))


def freeze_unread_pooler(learner: Learner) -> None:
    """Freeze the pooler if no objective reads it, because DDP expects a gradient of every trained
    parameter."""
    pooler = learner.encoder.pooler
    objectives = cast("Iterable[Objective[Any]]", learner.objectives.values())
    if pooler is not None and not any(objective.reads_pooled for objective in objectives):
        pooler.requires_grad_(False)
