"""NNLM: a feed-forward network that predicts the next word from the vectors of the last few words.

Bengio, Ducharme, Vincent, Janvin 2003 (A Neural Probabilistic Language Model, JMLR 3), section 2:

    x = (C(w_t), C(w_(t-1)), ..., C(w_(t-n+2)))      the vectors of the last n - 1 words
    y = b + W x + U tanh(d + H x),    p(w_(t+1)) = softmax(y)

`NnlmEncoder` holds C, H and d. Its one layer is tanh(d + H x); with direct connections, x follows
it. U, b and W are the weights of `nn/outputs/next_token.py`, which has U and W as one matrix. Three
things differ from the paper: word vectors are as wide as the tanh layer, a learned vector stands
before the first token of a sequence, and the optimizer is that of the recipe.

Letters: N tokens, C tokens of context (the paper's n - 1), H hidden, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertwright.models.nnlm.config import NnlmConfig
from bertwright.nn.encoder import Encoder, EncoderSpec
from bertwright.nn.last_tokens import LastTokens, last_tokens
from bertwright.nn.sequences import Inputs, Sequences


class NnlmLayer(nn.Module):
    """`tanh(d + H x)` over the vectors x of the last C tokens. With `direct`, x is appended to the
    result.
    """

    def __init__(self, width: int, context: int, direct: bool) -> None:
        super().__init__()
        self.context, self.direct = context, direct
        self.start = nn.Parameter(torch.zeros(width))
        self.hidden = nn.Linear(context * width, width)

    def forward(self, x: Tensor, sequences: Sequences) -> Tensor:
        """Apply the layer: x `[N, H]` -> `[N, H]`, or `[N, H + C H]` with direct connections."""
        rows = sequences.last_tokens(self.context)  # [N, C], its own token first
        return self.of_windows(torch.cat([x, self.start[None].to(x.dtype)])[rows])

    def of_windows(self, windows: Tensor) -> Tensor:
        """Apply the layer to the vectors of the last tokens `[N, C, H]`, latest first -> `[N, H]`,
        or `[N, H + C H]` with direct connections.
        """
        x = windows.flatten(1)  # [N, C H]
        hidden: Tensor = self.hidden(x).tanh()
        return torch.cat([hidden, x], 1) if self.direct else hidden


def nnlm_spec(config: NnlmConfig) -> EncoderSpec:
    """Return the specification of an encoder with this configuration."""
    width = config.hidden_size
    top = width * (1 + config.context_size * config.direct_connections)
    return EncoderSpec(
        width=top,
        depth=1,
        vocab_size=config.vocab_size,
        causal=True,
        default_layer=0,
        averages_begin=False,  # layer 0 is word vectors, and the begin token is not a word
        averages_end=False,
        feature_based=True,
        own_widths=(width, top),
    )


class NnlmEncoder(Encoder):
    """The word vectors and the hidden layer."""

    def __init__(self, config: NnlmConfig) -> None:
        super().__init__(nnlm_spec(config))
        width, words = config.hidden_size, config.vocab_size
        self.config = config
        self.embeddings = nn.Embedding(words, width)
        self.layer = NnlmLayer(width, config.context_size, config.direct_connections)

    def compute(self, inputs: Inputs, top: int | None) -> list[Tensor]:
        x = self.embeddings(inputs.ids)  # [N, H]
        return [x] if top == 0 else [x, self.layer(x, inputs.sequences)]

    def begin(self, inputs: Inputs) -> tuple[Tensor, LastTokens]:
        state = last_tokens(inputs, self.layer.context)
        return self._read(state), state

    def advance(self, ids: Tensor, state: LastTokens) -> tuple[Tensor, LastTokens]:
        state = state.advanced(ids)
        return self._read(state), state

    def extend(self, inputs: Inputs, state: LastTokens) -> tuple[Tensor, LastTokens]:
        state = state.extended(inputs)
        return self._read(state), state

    def _read(self, state: LastTokens) -> Tensor:
        """Return the output of the layer for the last C tokens of each sequence."""
        ids = state.ids.flip(1)  # [B, C], the last token first
        x = self.embeddings(ids.clamp(min=0))
        x = x.where((ids >= 0)[:, :, None], self.layer.start.to(x.dtype))
        return self.layer.of_windows(x)

    def stages(self) -> Sequence[nn.Module]:
        return [self.embeddings, self.layer]

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize the weights uniformly in a range that does not saturate tanh. The paper does
        not specify the initialization.
        """
        nn.init.uniform_(self.embeddings.weight, -0.5, 0.5, generator=generator)
        nn.init.zeros_(self.layer.start)
        bound = math.sqrt(3 / self.layer.hidden.in_features)
        nn.init.uniform_(self.layer.hidden.weight, -bound, bound, generator=generator)
        nn.init.zeros_(self.layer.hidden.bias)
