"""N-gram language models: the next token depends on the last n - 1 tokens.

Shannon 1951, "Prediction and Entropy of Printed English". The smoothing is that of Chen and Goodman
1998, "An Empirical Study of Smoothing Techniques for Language Modeling".

`NgramContext` reads the ids of those n - 1 tokens and has no weights. The probabilities are in
`models/ngram/tables.py`; `models/ngram/system.py` estimates them.

Letters: N tokens, B sequences, C = n - 1 (1 for n = 1).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertwright.models.ngram.config import NgramConfig
from bertwright.nn.encoder import Encoder, EncoderSpec
from bertwright.nn.last_tokens import LastTokens, last_tokens
from bertwright.nn.sequences import Inputs


def ngram_spec(config: NgramConfig) -> EncoderSpec:
    return EncoderSpec(
        width=max(1, config.order - 1),
        depth=0,
        vocab_size=config.vocab_size,
        causal=True,
        has_vectors=False,
    )


class NgramContext(Encoder):
    """An encoder whose "vector" of a token is the ids of the last C tokens, ending with the token
    itself; -1 stands before the first token of a sequence.
    """

    def __init__(self, config: NgramConfig) -> None:
        super().__init__(ngram_spec(config))
        self.config = config
        self.register_buffer("place", torch.empty(0), persistent=False)  # for `device`

    def compute(self, inputs: Inputs, top: int | None) -> list[Tensor]:
        """Return the ids of the last C tokens up to each token: ids `[N]` -> int64 `[N, C]`."""
        rows = inputs.sequences.last_tokens(self.spec.width).flip(1)
        return [torch.cat([inputs.ids, inputs.ids.new_full((1,), -1)])[rows]]

    def begin(self, inputs: Inputs) -> tuple[Tensor, LastTokens]:
        state = last_tokens(inputs, self.spec.width)
        return state.ids, state

    def advance(self, ids: Tensor, state: LastTokens) -> tuple[Tensor, LastTokens]:
        state = state.advanced(ids)
        return state.ids, state

    def extend(self, inputs: Inputs, state: LastTokens) -> tuple[Tensor, LastTokens]:
        state = state.extended(inputs)
        return state.ids, state

    def stages(self) -> Sequence[nn.Module]:
        """Return an empty list, because nothing is trained."""
        return []

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Do nothing, because there are no parameters."""
