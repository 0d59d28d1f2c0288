"""What of an encoder is trained, and from when on.

Feature-based use freezes all of it (`transfer/features.py`); `top-N` trains the last N layers;
gradual unfreezing (Howard & Ruder 2018, section 3.3) begins with the last layer and unfreezes one
more each epoch, so that the first steps of a new head do not destroy what was pre-trained.

Depths: 0 the embeddings, 1 to L the layers, L + 1 the pooler and the task heads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from bertwright.nn.objective import Learner, Objective


def learn_from(learner: Learner, depth: int) -> None:
    """Train everything at `depth` and above, freeze what is below."""
    depth_of = learner.depths()
    for name, parameter in learner.named_parameters():
        parameter.requires_grad_(depth_of[name] >= depth)


def gradual_depth(done: float, epochs: float, layers: int) -> int:
    """The lowest depth that is trained when a fraction `done` of a run is over.

    One more layer an epoch from the last one down; where the epochs are too few for all, the
    layers share the first half of the run evenly.

    Args:
        done: 0 to 1.
        epochs: passes over the data in the whole run.
        layers: L.
    """
    stage = min(1.0, epochs / 2 / (layers + 1))  # epochs
    return max(0, layers - int(done * epochs / stage + 1e-9))


def freeze_unread_pooler(learner: Learner) -> None:
    """Freeze the pooler where no objective reads it: nothing would train it, and DDP asks for
    that."""
    pooler = learner.encoder.pooler
    objectives = cast("Iterable[Objective[Any]]", learner.objectives.values())
    if pooler is not None and not any(each.reads_pooled for each in objectives):
        pooler.requires_grad_(False)
