"""Parameters in groups by depth, each with its learning rate.

Howard & Ruder 2018 (ULMFiT), section 3.2, discriminative fine-tuning: layer l learns at
`rate * decay ** (top - l)`. Depth 0 is the embeddings, 1 to L the layers, L + 1 the pooler and the
task heads. Matrices decay, norms and biases do not.

What a head has beside its last linear layer (an LSTM, a hidden layer, the transitions of a CRF, the
weights of a mix) is not pre-trained and has a rate of 1e-3 at least: at a rate that suits a
pre-trained encoder it would hardly move in three epochs.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from bertwright.objectives.objective import Learner

LEAST_RATE = 1e-3
_NOT_PRETRAINED = ("network", "crf", "mix", "hidden")


def parameter_groups(
    learner: Learner, rate: float, weight_decay: float, layer_decay: float = 1.0
) -> list[dict[str, Any]]:
    """Groups for an optimizer: `params`, `lr`, `weight_decay`.

    Parameters that are frozen now are in too: they are passed over while they have no gradient.
    """
    depth_of = learner.depths()
    top = max(depth_of.values())
    grouped: dict[tuple[float, bool], list[Tensor]] = {}
    for name, parameter in learner.named_parameters():
        own = rate * layer_decay ** (top - depth_of[name])
        if name.startswith("objectives.") and name.split(".")[2] in _NOT_PRETRAINED:
            own = max(own, LEAST_RATE)
        grouped.setdefault((own, parameter.ndim >= 2), []).append(parameter)
    return [
        {"params": parameters, "lr": own, "weight_decay": weight_decay if decays else 0.0}
        for (own, decays), parameters in sorted(grouped.items(), key=lambda item: item[0])
    ]
