"""Frozen features: the vectors of an encoder, computed once and then looked up.

Devlin et al. 2019, section 5.3; Peters et al. 2018 (ELMo). The vectors of a frozen encoder do not
change, so a table stores those of every token of the data, and a head is trained on rows of the
table. The learner uses the table as its encoder; ids are row numbers.

Letters: N tokens of a batch, F width of the stored layers side by side, R tokens of the data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from bertwright.arrays import new_memmap
from bertwright.errors import BertwrightError
from bertwright.nn.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.host import send
from bertwright.nn.sequences import Inputs


class FeatureTable(Encoder):
    """The vectors of selected layers for each token of a data set: `[R, F]` float16 in a file, the
    layers side by side.

    float16 has three digits for numbers up to 65,504; the values of an encoder are below 100.
    """

    def __init__(self, file: Path, rows: int, layers: Collection[int], spec: EncoderSpec) -> None:
        """Create an empty table of R rows, memory-mapped in `file`.

        It stores `layers`, 0 the embeddings, of the encoder with the specification `spec`.
        """
        super().__init__(replace(spec, vocab_size=rows, max_length=None, pooled=False))
        self.layers = tuple(sorted(set(layers)))
        self._widths = [spec.widths[number] for number in self.layers]
        self._table = new_memmap(file, np.float16, (rows, sum(self._widths)))

    def put(self, rows: Tensor, encoded: Encoded) -> None:
        """Store the vectors of N tokens in the rows `rows` `[N]` of the table."""
        stored = torch.cat([encoded.layers[number] for number in self.layers], 1)  # [N, F]
        values = stored.float().cpu().numpy()
        if not np.isfinite(values).all() or np.abs(values).max(initial=0) > 65504:
            raise BertwrightError(
                "the encoder's vectors are not finite, or too large for float16 features; use "
                "--transfer finetune"
            )
        self._table[rows.cpu().numpy()] = values

    def forward(
        self,
        inputs: Inputs,
        *,
        top: int | None = None,
        keep_layers: bool = True,
        positions: Tensor | None = None,
    ) -> Encoded:
        """Look up the vectors of tokens: `inputs.ids` `[N]` -> layers of `[N, spec.widths[l]]`.

        A layer that is not stored is an empty tensor at its index.
        """
        ids = inputs.ids
        rows = send(torch.from_numpy(self._table[ids.cpu().numpy()]), ids.device).float()
        empty = rows.new_empty(0)
        layers = [empty] * (self.layers[-1] + 1)
        for number, layer in zip(self.layers, rows.split_with_sizes(self._widths, 1), strict=True):
            layers[number] = layer
        return Encoded(inputs.sequences, layers[-1], tuple(layers))

    def stages(self) -> Sequence[nn.Module]:
        """Return an empty list, because no parameter is trained."""
        return []

    def flops(self, lengths: Sequence[int], last_rows: int) -> float:
        """Return 0, because a look-up has no matrix products."""
        return 0.0
