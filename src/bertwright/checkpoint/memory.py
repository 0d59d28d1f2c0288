"""Refuse a model that does not fit in the memory of this machine."""

from __future__ import annotations

from bertwright.errors import ConfigError
from bertwright.machine import usable_memory
from bertwright.nn.objective import Learner


def require_memory(learner: Learner, what: str) -> None:
    """Raise ConfigError if the weights of a learner need more memory than this machine has. The
    learner may be on the device `meta`."""
    tensors = [*learner.parameters(), *learner.buffers()]
    size, most = sum(x.numel() * x.element_size() for x in tensors), usable_memory()
    if most is not None and size > most:
        count = sum(parameter.numel() for parameter in learner.parameters())
        raise ConfigError(
            f"{what} has {count:,} parameters, which take {size / 1e9:,.1f} GB of memory; this "
            f"machine has {most / 1e9:,.1f} GB: choose smaller sizes, or a machine with more memory"
        )
