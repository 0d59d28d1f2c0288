"""Who computes the layers: torch in float32, bfloat16 or 8 bits, ONNX Runtime, OpenVINO.

Every backend takes sequences of ids and gives the layers asked for, sequences end to end. What is
not float32 by torch is held against it on a sample before it is used (`backend_choice.py`).

Letters: n sequences, N tokens of a batch, H hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from bertwright.checkpoint.export.exported import Exported
from bertwright.data.batch import collate, token_batches
from bertwright.errors import ConfigError
from bertwright.inference.backends.packed import PackedBert
from bertwright.models.bert import Bert
from bertwright.nn.sequences import Sequences

BackendName = Literal["auto", "torch", "onnx", "openvino"]
Precision = Literal["auto", "fp32", "bf16", "int8"]
Ids = Sequence[Sequence[int]]
Found = tuple[list[int], Sequences, list[Tensor]]
"""Which sequences a batch holds, where they begin, and a `[N, H]` for each layer asked for."""
Places = Sequence[Sequence[int]]
"""Of each of n sequences the places of the tokens that are read, from 0 for [CLS]."""


class Backend(Protocol):
    """Computes layers."""

    name: str
    """For people: `torch bf16`."""

    def run(
        self, ids: Ids, types: Ids | None, layers: tuple[int, ...], places: Places | None = None
    ) -> Iterator[Found]:
        """Batches of some of the n sequences, in any order, each sequence once.

        Args:
            ids: n sequences, each with its [CLS] and [SEP].
            types: their segments; unset: all 0.
            layers: 0 the embeddings, 1 and up the layers.
            places: where the highest of these is read; unset: everywhere. What it holds elsewhere
                is not to be looked at: it may not be computed.
        """
        ...


class PlainBackend:
    """A `Bert` as it is, on its device."""

    def __init__(self, bert: Bert, batch_tokens: int, name: str = "torch fp32") -> None:
        self.bert, self.batch_tokens, self.name = bert, batch_tokens, name
        self.device = bert.embeddings.token.weight.device

    def run(
        self, ids: Ids, types: Ids | None, layers: tuple[int, ...], places: Places | None = None
    ) -> Iterator[Found]:
        """See `Backend`; computes all of every layer."""
        for rows in token_batches([len(sequence) for sequence in ids], self.batch_tokens):
            rows, flat, kinds, sequences = lay_out(rows, ids, types, self.device)
            with torch.inference_mode():
                encoded = self.bert(flat, kinds, sequences, top=max(layers), keep_layers=True)
            yield rows, sequences, [encoded.layers[number] for number in layers]


class PackedBackend:
    """A `Bert` made ready for reading on a CPU."""

    def __init__(self, packed: PackedBert, batch_tokens: int, name: str) -> None:
        self.packed, self.batch_tokens, self.name = packed, batch_tokens, name

    def run(
        self, ids: Ids, types: Ids | None, layers: tuple[int, ...], places: Places | None = None
    ) -> Iterator[Found]:
        """See `Backend`. Of many batches each has one core: cores on one wait for each other."""
        cpu = torch.device("cpu")

        def encode(rows: list[int]) -> Found:
            rows, flat, kinds, sequences = lay_out(rows, ids, types, cpu)
            read = None if places is None else places_in(rows, sequences, places)
            with torch.inference_mode():
                return rows, sequences, self.packed.run(flat, kinds, sequences, layers, read)

        lengths = [len(sequence) for sequence in ids]
        tokens, threads = sum(lengths), torch.get_num_threads()
        if threads == 1 or tokens < 2 * threads * self.batch_tokens:
            yield from map(encode, token_batches(lengths, self.batch_tokens))
            return
        rounds = -(-tokens // (threads * self.batch_tokens))
        share = -(-tokens // (threads * rounds)) + max(lengths)  # all are done at about once
        with one_core_each(threads) as pool:
            yield from pool.map(encode, token_batches(lengths, share))


class ExportedBackend:
    """A folder of `bertwright export`, run by ONNX Runtime or OpenVINO."""

    AT_ONCE = 1024

    def __init__(self, exported: Exported, batch_tokens: int, top: int) -> None:
        self.exported, self.batch_tokens, self.top = exported, batch_tokens, top
        self.name = f"{exported.runtime} {'int8' if exported.int8 else 'fp32'}"
        if exported.head is not None:
            raise ConfigError(
                f"{exported.folder} was exported with the head {exported.head}; vectors need an "
                "export without one"
            )

    def run(
        self, ids: Ids, types: Ids | None, layers: tuple[int, ...], places: Places | None = None
    ) -> Iterator[Found]:
        """See `Backend`; computes all of every layer.

        Raises:
            ConfigError: a layer that the export does not give.
        """
        names = [self._output(layer) for layer in layers]
        for start in range(0, len(ids), self.AT_ONCE):
            rows = list(range(start, min(start + self.AT_ONCE, len(ids))))
            rows.sort(key=lambda row: -len(ids[row]))
            kinds = None if types is None else [types[row] for row in rows]
            found = self.exported.run_all([ids[row] for row in rows], kinds, self.batch_tokens)
            sequences = Sequences([len(ids[row]) for row in rows])
            yield rows, sequences, [torch.from_numpy(np.concatenate(found[n])) for n in names]

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


def lay_out(
    rows: list[int], ids: Ids, types: Ids | None, device: torch.device
) -> tuple[list[int], Tensor, Tensor, Sequences]:
    """Some sequences end to end, longest first: their rows, ids `[N]`, segments `[N]`, bounds."""
    batch = collate(
        [ids[row] for row in rows], None if types is None else [types[row] for row in rows]
    )
    return (
        [rows[place] for place in batch.positions],
        torch.as_tensor(batch.input_ids, device=device),
        torch.as_tensor(batch.token_type_ids, device=device),
        Sequences(batch.lengths.tolist(), device),
    )


def places_in(rows: list[int], sequences: Sequences, places: Places) -> Tensor:
    """Where in N the tokens at these places of these rows stand, `[R]`, sequence by sequence."""
    starts = zip(rows, sequences.offsets[:-1], strict=True)
    found = [start + place for row, start in starts for place in places[row]]
    return torch.tensor(found, dtype=torch.long, device=sequences.device)


@contextmanager
def one_core_each(threads: int) -> Iterator[ThreadPoolExecutor]:
    """So many threads, in each of which torch takes one core; left early, nothing more is begun."""
    # torch.set_num_threads is of the calling thread, and of threads that begin later
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)
