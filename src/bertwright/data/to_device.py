"""A batch of arrays as a batch of tensors on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from bertwright.data.batch import InputArrays, collate
from bertwright.nn.sequences import Inputs, Sequences

B = TypeVar("B")


def to_device(batch: B, device: torch.device | str) -> B:
    """The same dataclass with tensors in place of its arrays, and `Inputs` of its `InputArrays`.

    On CUDA they are copied without waiting, from pinned memory.
    """
    given: Any = batch
    moved = {f.name: _move(getattr(given, f.name), torch.device(device)) for f in fields(given)}
    made: B = replace(given, **moved)
    return made


def inputs_to_device(inputs: InputArrays, device: torch.device | str) -> Inputs:
    """What an encoder reads, as tensors."""
    device = torch.device(device)
    segments = None if inputs.segments is None else _tensor(inputs.segments, device)
    prefixes = None if inputs.prefixes is None else inputs.prefixes.tolist()
    sequences = Sequences(inputs.lengths.tolist(), device, prefixes)
    return Inputs(_tensor(inputs.ids, device), sequences, segments)


def make_inputs(
    rows: list[int],
    ids: Sequence[Sequence[int]],
    segments: Sequence[Sequence[int]] | None,
    device: torch.device,
) -> tuple[list[int], Inputs]:
    """Some sequences end to end, longest first: their rows, and what the encoder reads."""
    inputs, order = collate(
        [ids[row] for row in rows], None if segments is None else [segments[row] for row in rows]
    )
    return [rows[number] for number in order], inputs_to_device(inputs, device)


def _move(value: Any, device: torch.device) -> Any:
    if isinstance(value, InputArrays):
        return inputs_to_device(value, device)
    return _tensor(value, device) if isinstance(value, np.ndarray) else value


def _tensor(array: Any, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
