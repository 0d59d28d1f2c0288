"""A batch of arrays as a batch of tensors on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from bertwright.data.batch import InputArrays, collate
from bertwright.nn.host import send
from bertwright.nn.sequences import Inputs, Sequences

B = TypeVar("B")


def to_device(batch: B, device: torch.device | str) -> B:
    """The same dataclass with tensors in place of its arrays, and `Inputs` of its `InputArrays`.

    They are copied to CUDA from pinned memory, without waiting, and the offsets of the sequences
    with them.
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
    if device.type != "cpu":
        _ = sequences.cu_seqlens  # the offsets go to the device with the batch
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
    return send(torch.from_numpy(array), device)
