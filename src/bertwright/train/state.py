"""The position of a run, and how the optimizer's part of it is stored.

A run is a function of its configuration and its position: instances, masks and dropout are drawn
from (seed, step), so no generator has a state to save. What is saved beside the weights is the
position, with how many lines of the log are of it, and the moments of the optimizers.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from bertwright.errors import IntegrityError
from bertwright.train.distributed import Ranks, laid_like
from bertwright.train.loss_sums import Window
from bertwright.train.optim import Optimizers

STATE, TENSORS = "trainer.json", "trainer.safetensors"


@dataclass(frozen=True)
class DataPosition:
    """Where the next step's batch is in the data."""

    phase: int = 0
    epoch: int = 0
    step: int = 0
    """Step of the epoch."""


@dataclass(frozen=True)
class Position:
    """How far a run has come."""

    step: int = 0
    """Optimizer steps done."""
    tokens: int = 0
    """Tokens seen, over all ranks."""
    seconds: float = 0.0
    """Wall-clock seconds the run took so far, all its sessions."""
    data: DataPosition = field(default_factory=DataPosition)
    """Where the next step's batch is."""
    finished: bool = False
    """Whether the budget is used up."""
    validated: int = -1
    """Step of the last validation."""
    records: int = 0
    """Lines of `metrics.jsonl` so far."""
    window: Window = field(default_factory=Window)
    """What the next line of the log will be of."""


def encode_state(
    position: Position, learner: nn.Module, optimizers: Optimizers, ranks: Ranks
) -> dict[str, bytes]:
    """The trainer's files of a checkpoint, by name, for the first rank; every rank calls this."""
    tensors: dict[str, Tensor] = {}
    moments: dict[str, list[str]] = {}
    for name, parameter in learner.named_parameters():
        state = optimizers.state_of(parameter)
        moments[name] = list(state)
        tensors |= {f"{name}.{moment}": value for moment, value in state.items()}
    kept = asdict(position)
    kept["place"] = kept.pop("data")  # as files of runs have it
    content = {"format": 1, "position": kept, "moments": moments}
    files = {STATE: json.dumps(content, indent=1).encode() + b"\n"}
    return files | {TENSORS: save(ranks.gather(tensors))}


def load_state(folder: Path, learner: nn.Module, optimizers: Optimizers) -> Position:
    """Read a checkpoint's trainer files into `optimizers`; the position it was saved at.

    Raises:
        IntegrityError: a file is missing or is not this learner's.
    """
    for name in (STATE, TENSORS):
        if not (folder / name).is_file():
            raise IntegrityError(
                f"{folder} has no {name}: training cannot go on from it; "
                "begin a new run with --init instead"
            )
    try:
        content: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
        tensors = load_file(folder / TENSORS)
        kept = content["position"]
        parts = {"data": DataPosition(**kept.pop("place")), "window": Window(**kept["window"])}
        position = Position(**{**kept, **parts})
        moments: dict[str, list[str]] = content["moments"]
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        raise IntegrityError(f"the trainer's files in {folder} are damaged ({error})") from error
    parameters = dict(learner.named_parameters())
    if unknown := set(moments) - set(parameters):
        raise IntegrityError(f"{folder} has optimizer state of other weights: {sorted(unknown)[0]}")
    for name, names in moments.items():
        parameter = parameters[name]
        state = {}
        for moment in names:
            value = tensors.get(f"{name}.{moment}")
            if value is None or (moment != "step" and value.shape != parameter.shape):
                raise IntegrityError(f"{folder / TENSORS} does not hold {name}.{moment} whole")
            # A copy: what is read lies in the file's memory at any address, and sums over memory
            # that is aligned otherwise are rounded otherwise.
            state[moment] = laid_like(value, parameter)
        if state:
            optimizers.set_state(parameter, state)
    return position
