"""Run the graph that `bertwright export` wrote, in place of a model's encoder.

`ExportedEncoder` is the encoder, for the heads of the checkpoint that it was exported from;
`ExportedBackend` computes vectors by it. Before it is used, a graph is compared with the encoder on
a sample (`agree.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertwright.checkpoint.export.check import SENTENCES
from bertwright.checkpoint.export.exported import Exported, open_exported
from bertwright.errors import ConfigError
from bertwright.inference.backends.agree import require_agreement
from bertwright.inference.backends.plain import LayerBatch, PlainBackend
from bertwright.inference.encode import Ids, Positions, encode_batches
from bertwright.nn.encoder import Encoded, Encoder
from bertwright.nn.objective import Learner, Objective
from bertwright.nn.sequences import Inputs
from bertwright.text.tokenizer.tokenizer import Tokenizer


class ExportedEncoder(Encoder):
    """Encoder that runs the graph of a `bertwright export` folder on the CPU."""

    def __init__(self, exported: Exported, encoder: Encoder, model: str) -> None:
        """Replace an encoder by its graph.

        Args:
            exported: the graph.
            encoder: the encoder that it was exported from.
            model: the path of the model, for the command that a message shows.

        Raises:
            ConfigError: the graph includes a head.
        """
        super().__init__(encoder.spec)
        self.exported, self.config = exported, getattr(encoder, "config", None)
        self.pooler = encoder.pooler
        if exported.head is not None:
            raise ConfigError(
                f"{exported.folder} is an export of the head {exported.head} (which is what export "
                "writes of a fine-tuned model without --task encoder); expected one of the encoder "
                "alone, whose layers the heads of the model read: bertwright export "
                f"{exported.runtime} --model {model} --task encoder --out DIR"
            )
        self.given = exported.layers or (encoder.spec.depth,)
        """The numbers of the layers that the graph computes."""
        self.register_buffer("_place", torch.zeros(0), persistent=False)

    def lacks(self, layers: Iterable[int]) -> list[int]:
        """Return those of some layers that the graph does not compute."""
        return sorted({*layers}.difference(self.given))

    def require(self, layers: Iterable[int]) -> None:
        """Raise ConfigError if the graph does not compute one of some layers."""
        if missing := self.lacks(layers):
            given, lacks = (", ".join(map(str, each)) for each in (self.given, missing))
            raise ConfigError(
                f"{self.exported.folder} gives layer {given}, not {lacks}: export again with "
                f"--layers {lacks} too"
            )

    def forward(
        self,
        inputs: Inputs,
        *,
        top: int | None = None,
        keep_layers: bool = False,
        positions: Tensor | None = None,
    ) -> Encoded:
        """Run the graph on a batch; see `Encoder`. A layer that the graph does not compute is an
        empty tensor at its index.

        Raises:
            ConfigError: `top` is a layer that the graph does not compute.
        """
        highest = self.spec.depth if top is None else top
        self.require([highest])
        lengths = inputs.sequences.lengths
        ids = [each.tolist() for each in inputs.ids.split_with_sizes(lengths)]
        types = None
        if inputs.segments is not None and self.spec.segments > 1:
            types = [each.tolist() for each in inputs.segments.split_with_sizes(lengths)]
        found = self.exported.run_all(ids, types)
        of_tokens = [name for name, each in self.exported.outputs.items() if each]
        layers: list[Any] = [torch.empty(0)] * (highest + 1)
        for number, name in zip(self.given, of_tokens, strict=False):
            if number <= highest:
                layers[number] = torch.from_numpy(np.concatenate(found[name]))
        last = layers[highest]
        pooled = None
        if self.pooler is not None and top is None:
            pooled = self.pooler(last[inputs.sequences.first])
        return Encoded(inputs.sequences, last, tuple(layers) if keep_layers else (), pooled)

    def stages(self) -> Sequence[nn.Module]:
        """Return an empty list, because an exported graph is not trained."""
        return []


class ExportedBackend(PlainBackend):
    """Backend that runs an exported graph."""

    BATCH_TOKENS = 1 << 16
    """More than the graph runs at once: it sorts and pads the sequences of a batch itself."""

    def __init__(self, encoder: ExportedEncoder) -> None:
        self.exported, self.graph = encoder.exported, encoder
        precision = "int8" if encoder.exported.int8 else "fp32"
        super().__init__(encoder, self.BATCH_TOKENS, f"{encoder.exported.runtime} {precision}")

    def run(
        self,
        ids: Ids,
        segments: Ids | None,
        layers: tuple[int, ...],
        positions: Positions | None = None,
    ) -> Iterator[LayerBatch]:
        """Yield the requested layers; raise ConfigError if the graph does not compute one."""
        self.graph.require(layers)
        yield from super().run(ids, segments, layers, positions)


def with_export(
    folder: str | Path,
    learner: Learner,
    tokenizer: Tokenizer,
    model: str | Path,
    longest: int | None,
) -> Learner:
    """Return a learner with the heads of `learner` and an exported graph as its encoder.

    The learner runs on the CPU. The graph is verified on a sample of texts.

    Args:
        folder: the folder that `bertwright export` wrote.
        learner: the model that it was exported from.
        tokenizer: the tokenizer of the model.
        model: the path of the model, for the command that a message shows.
        longest: the most tokens that the model reads at once.

    Raises:
        ConfigError: the graph is of another model, lacks a layer that a head reads, or cannot be
            run by `ExportedEncoder`.
        DataError, IntegrityError, MissingExtra: as `open_exported`.
    """
    encoder = learner.encoder
    exported = open_exported(folder, torch.get_num_threads())
    graph = ExportedEncoder(exported, encoder, str(model)).eval()
    graph.require([encoder.spec.depth])  # which heads read
    framing = tokenizer.framing
    longest = min(longest or exported.longest, exported.longest)
    room = longest - framing.special_tokens()
    ids = [framing.one(each[:room]) for each in tokenizer.encode_bare_ids(SENTENCES)]
    most = max(map(max, ids))
    if exported.longest < longest or most >= encoder.spec.vocab_size:
        raise ConfigError(f"{folder} is not an export of this model")
    found, expected = _means(graph, ids), _means(encoder, ids)
    require_agreement(str(folder), not exported.int8, found, expected)
    heads = {name: head for name, head in learner.objectives.items() if isinstance(head, Objective)}
    for head in heads.values():
        graph.require(head.layers or ())
    return Learner(graph, heads).eval().requires_grad_(False)


def _means(encoder: Encoder, ids: Ids) -> Tensor:
    """Return the mean of the last layer over the tokens of each of n sequences, `[n, H]`."""
    means = []
    for _, encoded in encode_batches(encoder, ids, None, 4096):
        parts = encoded.last.float().split_with_sizes(encoded.sequences.lengths)
        means += [part.mean(0) for part in parts]
    return torch.stack(means)
