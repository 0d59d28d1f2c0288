"""Parameters in groups by depth, each with its learning rate.

Howard & Ruder 2018 (ULMFiT), section 3.2, discriminative fine-tuning: layer l learns at
`rate * decay ** (top - l)`. Depth 0 is the embeddings, 1 to L the layers, L + 1 the pooler and the
task heads. Matrices decay, norms and biases do not.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from bertwright.models.bert import Bert
from bertwright.objectives.objective import Learner


def depths(learner: Learner) -> dict[str, int]:
    """The depth of every parameter by name; of an encoder that is no BERT, nothing is deep."""
    encoder = learner.encoder
    top = len(encoder.layers) + 1 if isinstance(encoder, Bert) else 1
    found = {}
    for name, _ in learner.named_parameters():
        if name.startswith("encoder.embeddings."):
            found[name] = 0
        elif name.startswith("encoder.layers."):
            found[name] = int(name.split(".")[2]) + 1
        else:
            found[name] = top
    return found


def parameter_groups(
    learner: Learner, rate: float, weight_decay: float, layer_decay: float = 1.0
) -> list[dict[str, Any]]:
    """Groups for an optimizer: `params`, `lr`, `weight_decay`.

    Parameters that are frozen now are in too: they are passed over while they have no gradient.
    """
    depth_of = depths(learner)
    top = max(depth_of.values())
    sorted_out: dict[tuple[int, bool], list[Tensor]] = {}
    for name, parameter in learner.named_parameters():
        key = depth_of[name], parameter.ndim >= 2
        sorted_out.setdefault(key, []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": rate * layer_decay ** (top - depth),
            "weight_decay": weight_decay if decays else 0.0,
        }
        for (depth, decays), parameters in sorted(sorted_out.items(), key=lambda item: item[0])
    ]
