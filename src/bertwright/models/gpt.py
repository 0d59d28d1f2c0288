"""GPT and GPT-2: Transformer decoders that predict the next token.

GPT (Radford, Narasimhan, Salimans, Sutskever 2018, Improving Language Understanding by Generative
Pre-Training, sections 3.1 and 4.1): h_0 = U W_e + W_p, the token and learned position vectors; L
layers of causal self-attention, post-norm, with GELU by its tanh approximation;
P(u) = softmax(h_L W_e^T). GPT-2 (Radford et al. 2019, Language Models are Unsupervised Multitask
Learners, section 2.3): norms move before each part, one more follows the last layer, and the
matrices that end a residual branch start scaled by 1 / sqrt(2 L).

Differs: the normal distribution that initializes weights is truncated at two deviations. Queries,
keys and values are one product, as in the published code. Keys and values are kept when a text
goes on (`nn/cache.py`).

Letters: B sequences, N tokens in all, R read, H hidden, A heads, L layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertwright.config.runs.gpt import GptConfig
from bertwright.models.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.cache import KeyValueCache, read_prompts, read_token
from bertwright.nn.dropout import Dropout
from bertwright.nn.init import initialize, truncated_normal
from bertwright.nn.sequences import Inputs
from bertwright.nn.transformer import PreNormLayer, TransformerLayer


class GptEmbeddings(nn.Module):
    """Token + position."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.token = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """ids `[N]`, positions `[N]` -> `[N, H]`"""
        x = self.token(ids) + self.position(positions)
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        dropped: Tensor = self.dropout(x)
        return dropped


class LastPreNormLayer(PreNormLayer):
    """The last layer of GPT-2, with the norm that ends it."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__(*_sizes(config), eps=config.layer_norm_eps, causal=True)
        self.final_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)


class Gpt(Encoder):
    """The encoder of GPT; its output layer is `objectives/next_token.py`, tied."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__(
            EncoderSpec(
                config.hidden_size,
                config.num_hidden_layers,
                config.vocab_size,
                config.max_position_embeddings,
                causal=True,
                default_pooling="last",
            )
        )
        self.config = config
        self.embeddings = GptEmbeddings(config)
        depth = config.num_hidden_layers
        self.layers = nn.ModuleList(self._layer(config, n == depth - 1) for n in range(depth))

    def _layer(self, config: GptConfig, last: bool) -> TransformerLayer:
        return TransformerLayer(*_sizes(config), eps=config.layer_norm_eps, causal=True)

    def forward(
        self,
        inputs: Inputs,
        *,
        top: int | None = None,
        keep_layers: bool = False,
        positions: Tensor | None = None,
    ) -> Encoded:
        """See `Encoder`. The last layer is computed at `positions` alone."""
        sequences = inputs.sequences
        if positions is not None and (top is not None or keep_layers):
            raise ValueError("positions are of the last layer: leave out top and keep_layers")
        if top is not None and not 0 <= top <= len(self.layers):
            raise ValueError(f"top is {top}; this model has layers 0 to {len(self.layers)}")
        self._check(sequences.longest)
        x = self.embeddings(inputs.ids, sequences.positions)
        kept = [x]
        for layer in self.layers[: top if positions is None else -1]:
            x = layer(x, sequences)
            kept.append(x)
        if positions is not None:
            x = self.layers[-1](x, sequences, positions)
        return Encoded(sequences, x, tuple(kept) if keep_layers else (), positions=positions)

    def begin(self, inputs: Inputs) -> tuple[Tensor, KeyValueCache]:
        """See `GoesOn`."""
        sequences = inputs.sequences
        self._check(sequences.longest)
        x = self.embeddings(inputs.ids, sequences.positions)
        return read_prompts(self.layers, x, sequences)

    def advance(self, ids: Tensor, state: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        """See `GoesOn`."""
        positions = torch.tensor(state.lengths, device=ids.device)
        state.grow()
        self._check(max(state.lengths))
        return read_token(self.layers, self.embeddings(ids, positions), state), state

    def attention_map(self, number: int, x: Tensor) -> Tensor:
        """See `HasAttentionMaps`."""
        layer = self.layers[number - 1]
        assert isinstance(layer, TransformerLayer)
        if isinstance(layer, PreNormLayer):
            x = layer.attention_norm(x)
        return layer.attention.probabilities(x)

    def stages(self) -> Sequence[nn.Module]:
        """The embeddings and the layers."""
        return [self.embeddings, *self.layers]

    def token_embedding(self) -> nn.Embedding:
        """The table of token vectors."""
        return self.embeddings.token

    def flops(self, lengths: Sequence[int], last_rows: int) -> float:
        """The layers and causal attention; the last layer's output projection and feed-forward part
        are of `last_rows` tokens."""
        hidden, layers = self.config.hidden_size, self.config.num_hidden_layers
        attention = sum(lengths) * 3 * hidden**2 + hidden * sum(n**2 for n in lengths)
        tokens = (layers - 1) * sum(lengths) + last_rows
        return 6.0 * (layers * attention + tokens * 9 * hidden**2)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Matrices from a truncated normal distribution, biases 0, norms 1."""
        initialize(self, self.config.initializer_range, generator)

    def _check(self, longest: int) -> None:
        if longest > self.config.max_position_embeddings:
            raise ValueError(
                f"a sequence has {longest} tokens; this model has positions for "
                f"{self.config.max_position_embeddings}: truncate it"
            )


class Gpt2(Gpt):
    """The encoder of GPT-2."""

    def _layer(self, config: GptConfig, last: bool) -> TransformerLayer:
        if last:
            return LastPreNormLayer(config)
        return PreNormLayer(*_sizes(config), eps=config.layer_norm_eps, causal=True)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """As GPT; what ends a residual branch is scaled by 1 / sqrt(2 L)."""
        super().reset_parameters(generator)
        std = self.config.initializer_range / math.sqrt(2 * len(self.layers))
        for layer in self.layers:
            assert isinstance(layer, TransformerLayer)
            truncated_normal(layer.attention.output.weight, std, generator)
            truncated_normal(layer.feed_forward.output.weight, std, generator)


def _sizes(config: GptConfig) -> tuple[int, int, int, str, float, float]:
    """What a layer is made with."""
    return (
        config.hidden_size,
        config.num_attention_heads,
        4 * config.hidden_size,
        "gelu_tanh",
        config.hidden_dropout_prob,
        config.attention_probs_dropout_prob,
    )
