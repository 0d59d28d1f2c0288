"""Average the parameters of the last checkpoints of a run (Vaswani et al. 2017, section 6.1)."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from bertwright.checkpoint.checkpoint import load
from bertwright.checkpoint.find import list_checkpoints
from bertwright.errors import ConfigError


def average(run: Path, count: int) -> dict[str, Tensor]:
    """Return the parameters of a learner, averaged over the newest `count` checkpoints of a run."""
    there = list_checkpoints(run)
    if not 1 <= count <= len(there):
        raise ConfigError(
            f"{run} has {len(there)} checkpoints, and the last {count} were to be averaged: "
            "expected a run that has so many (pretrain keeps more with --checkpoint.keep)"
        )
    states = (load(folder).learner.state_dict() for folder in there[-count:])
    sums = {name: x.double() for name, x in next(states).items()}
    for state in states:
        for name, x in state.items():
            sums[name] += x
    return {name: (x / count).float() for name, x in sums.items()}
