"""Packed weights and 8-bit products beside the layers of training, in vectors and in serving.

    python benchmarks/backends.py MODEL [--texts FILE] [--threads 2] [--rounds 4] [--seconds 1.5]

MODEL is a BERT such as MiniLM. Compared are, in float32 and in bfloat16:

- layers: the modules of training without gradients (`inference/backends/plain.py`), whose batches
  of 4,096 tokens are computed by all cores;
- layers, a core each: the same modules, with batches of 2,048 tokens that cores compute side by
  side, which needs no packed weights;
- packed: `inference/backends/packed.py`, as `embed` and `serve` use it;
- int8: the same with `inference/backends/int8.py`, beside packed bfloat16.

`vectors` is what `Model.embed` computes, of 600 lines of `--texts` or of made-up sentences of 2 to
60 words. `serving` is requests of one sentence by 1 caller and by 64, to servers in processes of
their own; `--serve` of this file starts one that computes with the layers of training. All take
turns, and the median of the rounds counts. With the defaults this takes some three and a half
minutes on two cores. Nothing else may run meanwhile: the line of the machine has its load.

Prints the machine as JSON, and a table in Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from machine import machine
from serve_process import Server, make_texts

from bertwright.inference.backends.int8 import has_int8
from bertwright.inference.backends.packed import PackedBackend
from bertwright.inference.backends.plain import PlainBackend
from bertwright.inference.model import load
from bertwright.inference.vectors.embed import Embedder
from bertwright.nn.encoder import Encoder
from bertwright.nn.products import has_bfloat16
from bertwright.nn.sequences import Inputs

LAYERS, EACH, PACKED = "layers", "layers, a core each", "packed"
CALLERS = (1, 64)
TEXTS = 600
Rates = dict[tuple[str, str], float]
"""(way, precision) -> texts or requests a second."""


def not_packed() -> contextlib.AbstractContextManager[Any]:
    """Within the block, no encoder is packed."""
    return mock.patch("bertwright.inference.backends.choice.packable", return_value=None)


class UnpackedStack:
    """The modules of training where `PackedBackend` expects packed layers."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def run(
        self, inputs: Inputs, layers: tuple[int, ...], positions: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        """Return the requested layers."""
        encoded = self.encoder(inputs, top=max(layers), keep_layers=True)
        return [encoded.layers[number] for number in layers]


def make_embedder(model: str, way: str, precision: Any) -> Embedder:
    """Load the model, and return what computes its vectors in one way."""
    if way == PACKED:
        return load(model).embedder(precision=precision)
    with not_packed():
        embedder = load(model).embedder(precision=precision)
    backend = embedder.backend
    assert isinstance(backend, PlainBackend)
    if way == EACH:
        stack: Any = UnpackedStack(backend.encoder)
        embedder.backend = PackedBackend(stack, 2048, backend.name)
    return embedder


def in_turns(calls: Mapping[tuple[str, str], Callable[[], float]], rounds: int) -> Rates:
    """Return the median rate of each call."""
    rates: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
    for _ in range(rounds):
        for key, call in calls.items():
            rates[key].append(call())
    return {key: statistics.median(values) for key, values in rates.items()}


def ways(precisions: list[str]) -> list[tuple[str, str]]:
    """Return the pairs of way and precision that servers and vectors share."""
    return [
        (way, p) for p in precisions for way in (LAYERS, PACKED) if (way, p) != (LAYERS, "int8")
    ]


def vectors(model: str, precisions: list[str], texts: list[str], rounds: int) -> Rates:
    """Measure texts a second of `Model.embed`."""
    pairs = ways(precisions) + [(EACH, p) for p in precisions if p != "int8"]

    def call_of(embedder: Embedder) -> Callable[[], float]:
        embedder.embed(texts)  # makes oneDNN's kernels

        def call() -> float:
            start = time.perf_counter()
            embedder.embed(texts)
            return len(texts) / (time.perf_counter() - start)

        return call

    return in_turns({pair: call_of(make_embedder(model, *pair)) for pair in pairs}, rounds)


class ServerOfLayers(Server):
    """A server that computes with the modules of training."""

    PROGRAM = (__file__, "--serve")


def serving(args: argparse.Namespace, precisions: list[str]) -> dict[int, Rates]:
    """Measure requests of one sentence a second, by number of callers."""
    from serve import measure

    texts, found = make_texts(args.texts), {}
    with contextlib.ExitStack() as servers:
        running: dict[tuple[str, str], Server] = {}
        for way, precision in ways(precisions):
            options = argparse.Namespace(url=None, model=args.model, precision=precision)
            make = ServerOfLayers if way == LAYERS else Server
            running[way, precision] = servers.enter_context(make(options))
        for callers in CALLERS:

            def call_of(server: Server, callers: int = callers) -> Callable[[], float]:
                return lambda: float(
                    measure(server, texts, callers, args.seconds)["requests_per_second"]
                )

            calls = {key: call_of(server) for key, server in running.items()}
            found[callers] = in_turns(calls, args.rounds)
    return found


def table(measured: Mapping[str, Rates], precisions: list[str]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield (
        "| a second | precision | layers | layers, a core each | packed | packed over layers | "
        "packed over a core each |"
    )
    yield "|---|---|---|---|---|---|---|"
    for name, rates in measured.items():
        for precision in precisions:
            packed = rates[PACKED, precision]
            others = [rates.get((way, precision)) for way in (LAYERS, EACH)]
            cells = [f"{rate:,.0f}" if rate else "" for rate in (*others, packed)]
            cells += [f"{packed / rate:.2f}" if rate else "" for rate in others]
            yield f"| {name} | {precision} | {' | '.join(cells)} |"
    if "int8" in precisions:
        yield "\n| a second | packed bf16 | int8 | int8 over packed bf16 | int8 over layers bf16 |"
        yield "|---|---|---|---|---|"
        for name, rates in measured.items():
            low, packed = rates[PACKED, "int8"], rates[PACKED, "bf16"]
            ratios = f"{low / packed:.2f} | {low / rates[LAYERS, 'bf16']:.2f}"
            yield f"| {name} | {packed:,.0f} | {low:,.0f} | {ratios} |"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--texts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1.5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(json.dumps({"machine": machine()}), flush=True)
    precisions = ["fp32", *(["bf16"] if has_bfloat16() else []), *(["int8"] if has_int8() else [])]
    measured = {
        "vectors, texts": vectors(
            args.model, precisions, make_texts(args.texts, TEXTS), args.rounds
        )
    }
    for callers, rates in serving(args, precisions).items():
        measured[f"serving, {callers} caller{'s' * (callers > 1)}"] = rates
    print("\n".join(table(measured, precisions)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        from bertwright.cli.app import run

        with not_packed():
            sys.exit(run(sys.argv[2:]))
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main()
