"""The optimizer and the schedule of a fine-tuning run.

The optimizer is AdamW with bias correction: without it and without warm-up, training on small tasks
fails for some seeds (Mosbach et al. 2021; Zhang et al. 2021). Matrices decay; norms and biases do
not.

The parts of a head besides its last linear layer (an LSTM, a hidden layer, the transitions of a
CRF, the weights of a mix) are not pre-trained and learn at a rate of 1e-3 or above: a rate that
suits a pre-trained encoder would hardly change them in three epochs.

Lower layers may have lower learning rates (`layer_factors`), as in ULMFiT.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import nn

from bertwright.config.finetune import FinetuneConfig
from bertwright.errors import ConfigError
from bertwright.nn.objective import Learner, Objective
from bertwright.train.optim import Optimizers, layer_factors, parameter_groups
from bertwright.train.schedule import slanted_triangular, warmup_decay, without_bias_correction
from bertwright.transfer.freezing import freeze_unread_pooler, gradual_depth, learn_from

LEAST_RATE = 1e-3
"""The least learning rate of parts of a head (`Objective.at_high_rates`)."""
ULMFIT_DECAY = 1 / 2.6


class Stepping:
    """The optimizer and the schedule of a run, to be called before each step.

    A call sets the parameters to train and the learning rates, and returns the rate to log.
    """

    def __init__(
        self, learner: Learner, config: FinetuneConfig, rate: float, epochs: float, steps: int
    ) -> None:
        """Freeze the parameters that are never trained, and create the optimizer of the others.

        `rate` is the highest learning rate; `epochs` and `steps` are the length of the run.
        """
        self._learner = learner
        self._config = config
        self._rate = rate
        self._epochs = epochs
        self._steps = steps
        self._is_gradual = config.transfer == "gradual"
        self._layers = max(0, len(learner.encoder.stages()) - 1)
        if config.top_layers is not None:
            if config.top_layers > self._layers:
                raise ConfigError(
                    f"transfer is {config.transfer}, but the model has {self._layers} layers"
                )
            learn_from(learner, self._layers + 1 - config.top_layers)
        freeze_unread_pooler(learner)
        decay = config.layer_decay or (ULMFIT_DECAY if self._is_gradual else 1.0)
        groups = parameter_groups(learning_rates(learner, rate, decay), config.weight_decay)
        self.optimizers = Optimizers(torch.optim.AdamW(groups, lr=rate, eps=1e-8, fused=True))

    def __call__(self, done: float, width: float) -> float:
        """Set the parameters to train and the learning rates of the next step. Return the rate.

        The step begins after a fraction `done` of the run, and is a fraction `width` of it.
        """
        if self._is_gradual:
            learn_from(self._learner, gradual_depth(done, self._epochs, self._layers))
            factor = slanted_triangular(done, self._config.warmup)
        else:
            factor = warmup_decay(done, self._config.warmup, width)
        if not self._config.bias_correction:
            factor *= without_bias_correction(round(done * self._steps) + 1)
        self.optimizers.set_rates(factor)
        return self._rate * factor


def learning_rates(
    learner: Learner, rate: float, layer_decay: float = 1.0
) -> Iterator[tuple[nn.Parameter, float]]:
    """Yield each parameter and its highest learning rate, which is lower in lower layers.

    Parts of a head that are not pre-trained learn at `LEAST_RATE` or above. Frozen parameters are
    included: optimizers skip a parameter without a gradient.
    """
    factors = layer_factors(learner, layer_decay)
    objectives = cast("Mapping[str, Objective[Any]]", learner.objectives)
    fast = tuple(
        f"objectives.{name}.{part}."
        for name, objective in objectives.items()
        for part in objective.at_high_rates
    )
    for name, parameter in learner.named_parameters():
        scaled = rate * factors[name]
        yield parameter, max(scaled, LEAST_RATE) if name.startswith(fast) else scaled
