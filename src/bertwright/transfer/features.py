"""Frozen features: an encoder's vectors, computed once and then looked up.

Devlin et al. 2019, section 5.3; Peters et al. 2018 (ELMo). The encoder does not learn, so what it
says of a token never changes: the table holds it for every token of the data, and training on
features is training on rows of the table. To the learner it is an encoder like any other, whose ids
are the numbers of rows.

Letters: N tokens of a batch, H hidden, K layers kept, R tokens of the data.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from bertwright.errors import BertwrightError
from bertwright.models.encoder import Encoded
from bertwright.nn.sequences import Sequences


class FeatureTable(nn.Module):
    """Vectors of chosen layers for each token of a data set: `[R, K, H]` float16 in a file.

    float16 keeps three digits of numbers up to 65,504, and a BERT's are under a hundred.
    """

    def __init__(self, file: Path, rows: int, layers: Collection[int], hidden_size: int) -> None:
        """Make an empty table of `rows` tokens in `file`; nothing is read into memory whole."""
        super().__init__()
        self.layers = tuple(sorted(set(layers)))
        shape = (rows, len(self.layers), hidden_size)
        self._table = np.memmap(file, np.float16, "w+", shape=shape)

    def put(self, rows: Tensor, encoded: Encoded) -> None:
        """Keep what an encoder saw; `rows` [N] are the numbers of its tokens.

        Raises:
            BertwrightError: numbers that float16 cannot hold.
        """
        kept = torch.stack([encoded.layers[number] for number in self.layers], 1)  # [N, K, H]
        values = kept.float().cpu().numpy()
        if not np.isfinite(values).all() or np.abs(values).max(initial=0) > 65504:
            raise BertwrightError(
                "the encoder gives numbers that are not finite, or too large for float16 features; "
                "use --transfer finetune"
            )
        self._table[rows.cpu().numpy()] = values

    def forward(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        sequences: Sequences,
        top: int | None = None,
        keep_layers: bool = True,
    ) -> Encoded:
        """Look rows up: `input_ids` [N] are numbers of rows -> layers of `[N, H]` each.

        A layer that was not kept is an empty tensor in its place.
        """
        rows = torch.from_numpy(self._table[input_ids.cpu().numpy()]).to(input_ids.device).float()
        empty = rows.new_empty(0)
        layers = [empty] * (self.layers[-1] + 1)
        for place, number in enumerate(self.layers):
            layers[number] = rows[:, place]
        return Encoded(sequences, layers[-1], tuple(layers))
