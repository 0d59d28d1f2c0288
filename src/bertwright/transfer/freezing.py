"""What of an encoder learns, and from when on.

Feature-based use freezes all of it (`transfer/features.py`); `top-N` lets the last N layers learn;
gradual unfreezing (Howard & Ruder 2018, section 3.3) begins with the last layer and lets one more
learn each epoch, so that what was learned before is not washed out by a new head's first steps.

Depths: 0 the embeddings, 1 to L the layers, L + 1 the pooler and the task heads.
"""

from __future__ import annotations

from bertwright.models.bert import Bert
from bertwright.objectives.labelled import TextHead
from bertwright.objectives.objective import Learner
from bertwright.transfer.groups import depths


def learn_from(learner: Learner, depth: int) -> None:
    """Let everything at `depth` and above learn, and nothing below."""
    depth_of = depths(learner)
    for name, parameter in learner.named_parameters():
        parameter.requires_grad_(depth_of[name] >= depth)


def gradual_depth(done: float, epochs: float, layers: int) -> int:
    """The lowest depth that learns when a share `done` of a run is over.

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
    """Freeze the pooler where no head reads it: nothing would teach it, and DDP asks for that."""
    if isinstance(learner.encoder, Bert) and not any(
        isinstance(head, TextHead) and head.reads_pooler for head in learner.objectives.values()
    ):
        learner.encoder.pooler.requires_grad_(False)
