"""The position of a run, and how it is stored with the optimizer's state.

A run is a function of its configuration and its position: instances, masks and dropout are drawn
from (seed, step), so there is no generator whose state must be saved. Besides the weights, a
checkpoint stores the position, the number of log lines up to it, and the moments of the optimizers.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from bertwright.data.loading.phases import DataPosition
from bertwright.errors import IntegrityError
from bertwright.train.distributed import Ranks, laid_like
from bertwright.train.loss_sums import Window
from bertwright.train.optim import Optimizers

STATE, TENSORS = "trainer.json", "trainer.safetensors"


@dataclass(frozen=True)
class Position:
    """How far a run has come."""

    step: int = 0
    """The number of optimizer steps done."""
    tokens: int = 0
    """The number of tokens seen, over all ranks."""
    seconds: float = 0.0
    """The wall-clock seconds of the run so far, over all its sessions."""
    data: DataPosition = field(default_factory=DataPosition)
    """The position of the next step's batch in the data."""
    finished: bool = False
    """Whether the budget is used up."""
    validated: int = -1
    """The step of the last validation."""
    records: int = 0
    """The number of lines in `metrics.jsonl` so far."""
    window: Window = field(default_factory=Window)
    """The steps since the last line of the log."""

    def counted(self, split: str) -> dict[str, float | str]:
        """Return the first values of a line of the log about a split."""
        seconds = round(self.seconds, 3)
        return {"step": self.step, "tokens": self.tokens, "seconds": seconds, "split": split}


def encode_state(
    position: Position, learner: nn.Module, optimizers: Optimizers, ranks: Ranks
) -> dict[str, bytes]:
    """Return the trainer's files of a checkpoint, by name, on the first rank. Every rank must call
    it.
    """
    tensors: dict[str, Tensor] = {}
    moments: dict[str, list[str]] = {}
    for name, parameter in learner.named_parameters():
        state = optimizers.state_of(parameter)
        moments[name] = list(state)
        tensors |= {f"{name}.{moment}": value for moment, value in state.items()}
    content = {"format": 1, "position": asdict(position), "moments": moments}
    files = {STATE: json.dumps(content, indent=1).encode() + b"\n"}
    return files | {TENSORS: save(ranks.gather(tensors))}


def load_state(folder: Path, learner: nn.Module, optimizers: Optimizers) -> Position:
    """Read a checkpoint's trainer files into `optimizers`, and return the position."""
    for name in (STATE, TENSORS):
        if not (folder / name).is_file():
            raise IntegrityError(
                f"{folder} has no {name}: training cannot continue from it; "
                "begin a new run with --init instead"
            )
    try:
        content: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
        tensors = load_file(folder / TENSORS)
        stored = content["position"]
        parts = {"data": DataPosition(**stored["data"]), "window": Window(**stored["window"])}
        position = Position(**{**stored, **parts})
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
            # Copied, because tensors read from a file may be aligned differently in memory, and
            # sums over memory of another alignment are rounded differently.
            state[moment] = laid_like(value, parameter)
        if state:
            optimizers.set_state(parameter, state)
    return position
