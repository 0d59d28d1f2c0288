"""The plain backends: torch as in training, and the graphs that `bertwright export` wrote.

Every backend takes sequences of ids and returns the requested layers. Backends other than the model
as it was loaded are compared with float32 on a sample before they are used (`choice.py`).

Letters: n sequences, N tokens of a batch, H hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from bertwright.checkpoint.export.exported import Exported
from bertwright.errors import ConfigError
from bertwright.inference.encode import Ids, Positions, encode_batches
from bertwright.nn.encoder import Encoder
from bertwright.nn.sequences import Sequences


class LayerBatch(NamedTuple):
    """The layers of a batch of sequences."""

    rows: list[int]
    """The indices of the sequences."""
    sequences: Sequences
    layers: list[Tensor]
    """The layers, `[N, H]` each."""


class Backend(Protocol):
    """Computes the layers of an encoder for batches of ids."""

    name: str
    """A description such as `torch bf16`."""

    def run(
        self,
        ids: Ids,
        segments: Ids | None,
        layers: tuple[int, ...],
        positions: Positions | None = None,
    ) -> Iterator[LayerBatch]:
        """Yield batches of some of the n sequences, in any order, each sequence once.

        Args:
            ids: n sequences, each with its special tokens.
            segments: the segments of their tokens; None: all 0.
            layers: the layers to return; 0 is the embeddings.
            positions: the positions at which the highest of these layers is read; None: all.
                Elsewhere it may be NaN.
        """
        ...


class PlainBackend:
    """Backend that runs an encoder unchanged, on its device."""

    def __init__(self, encoder: Encoder, batch_tokens: int, name: str = "torch fp32") -> None:
        self.encoder, self.batch_tokens, self.name = encoder, batch_tokens, name

    def run(
        self,
        ids: Ids,
        segments: Ids | None,
        layers: tuple[int, ...],
        positions: Positions | None = None,
    ) -> Iterator[LayerBatch]:
        """Yield the requested layers for all tokens, whatever `positions` is; see `Backend`."""
        batches = encode_batches(
            self.encoder, ids, segments, self.batch_tokens, top=max(layers), keep_layers=True
        )
        for rows, encoded in batches:
            yield LayerBatch(rows, encoded.sequences, [encoded.layers[n] for n in layers])


@runtime_checkable
class RunsGraph(Protocol):
    """An encoder whose layers an exported graph computes (`exported_encoder.py`)."""

    exported: Exported
    given: tuple[int, ...]
    """The numbers of the layers that the graph computes."""


class ExportedBackend:
    """The graph of a folder of `bertwright export`, run by ONNX Runtime or OpenVINO."""

    AT_ONCE = 1024

    def __init__(self, exported: Exported, batch_tokens: int, top: int) -> None:
        self.exported, self.batch_tokens, self.top = exported, batch_tokens, top
        self.name = f"{exported.runtime} {'int8' if exported.int8 else 'fp32'}"
        if exported.head is not None:
            raise ConfigError(
                f"{exported.folder} is an export of the head {exported.head}; vectors need one of "
                f"the encoder alone: bertwright export {exported.runtime} --model MODEL --task "
                "encoder --out DIR"
            )

    def run(
        self,
        ids: Ids,
        segments: Ids | None,
        layers: tuple[int, ...],
        positions: Positions | None = None,
    ) -> Iterator[LayerBatch]:
        """Yield the requested layers for all tokens, whatever `positions` is; see `Backend`.

        Raises:
            ConfigError: the export does not have one of the layers.
        """
        names = [self._output(layer) for layer in layers]
        for start in range(0, len(ids), self.AT_ONCE):
            rows = list(range(start, min(start + self.AT_ONCE, len(ids))))
            rows.sort(key=lambda row: -len(ids[row]))
            kinds = None if segments is None else [segments[row] for row in rows]
            outputs = self.exported.run_all([ids[row] for row in rows], kinds, self.batch_tokens)
            sequences = Sequences([len(ids[row]) for row in rows])
            states = [torch.from_numpy(np.concatenate(outputs[name])) for name in names]
            yield LayerBatch(rows, sequences, states)

    def _output(self, layer: int) -> str:
        exported = self.exported
        of_tokens = [name for name, each in exported.outputs.items() if each]
        given = exported.layers or (self.top,)
        if layer not in given or len(of_tokens) < len(given):
            raise ConfigError(
                f"{exported.folder} gives layer {', '.join(map(str, given))}, not {layer}; export "
                f"again with --layers {layer}"
            )
        return of_tokens[given.index(layer)]
