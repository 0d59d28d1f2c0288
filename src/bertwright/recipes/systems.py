"""The catalogue of systems: what pre-training must know of each, one entry a system.

A new system is one file in `models/`, its `Format` in `checkpoint/formats.py`, the class of its run
in `config/systems.py`, and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bertwright.config.run import RunConfig
from bertwright.config.systems import RUN_CONFIGS
from bertwright.data.instances import Instances
from bertwright.data.shards import Shards
from bertwright.data.split import Split
from bertwright.nn.init import initialize
from bertwright.objectives.objective import Learner
from bertwright.recipes import bert
from bertwright.recipes.phases import Phase
from bertwright.train.optim import Optimizers, make_optimizers


def initialize_as_published(learner: Learner, run: RunConfig, shards: Shards) -> None:
    """The encoder by its `reset_parameters`, linear layers of objectives with a deviation of
    0.02."""
    generator = torch.Generator().manual_seed(run.seed)
    learner.encoder.reset_parameters(generator)
    initialize(learner.objectives, 0.02, generator)


@dataclass(frozen=True)
class System:
    """A system on the road to BERT, or BERT. `R` is the class of its runs, `C` of its model."""

    name: str
    paper: str
    model_config: Callable[[Any, int], Any]
    """(R, size of the vocabulary) -> C."""
    objectives: Callable[[Any], Sequence[str]]
    """R -> names of the objectives it is trained with."""
    phases: Callable[[Any, Shards], Sequence[Phase]]
    """(R, shards) -> what it is trained on."""
    held_out: Callable[[Any, Shards, Split], Instances[Any]]
    """(R, shards, split) -> what it is evaluated on, the same whatever the seed."""
    continued: Callable[[Any, Any, Path], Any]
    """(R, C of a checkpoint, its folder) -> C of a run that goes on from it, or ConfigError."""
    initialize: Callable[[Learner, Any, Shards], None] = initialize_as_published
    """(learner, R, shards): gives all weights their initial values, by the seed of R."""
    optimizers: Callable[..., Optimizers] = make_optimizers
    """(learner, optimizer part of R, precision) -> its optimizers."""


SYSTEMS: dict[str, System] = {
    "bert": System(
        name="bert",
        paper="Devlin et al. 2019, BERT",
        model_config=lambda run, vocab_size: run.bert(vocab_size),
        objectives=bert.objectives,
        phases=bert.phases,
        held_out=bert.held_out,
        continued=bert.continued,
        initialize=bert.initialize_from_data,
    )
}
"""Every system by its name."""


def system_of(run: RunConfig) -> System:
    """The system that a run trains, by the class of its configuration."""
    (name,) = (name for name, config in RUN_CONFIGS.items() if config is type(run))
    return SYSTEMS[name]
