"""GPT and GPT-2: Transformer decoders that predict the next token.

GPT (Radford, Narasimhan, Salimans, Sutskever 2018, Improving Language Understanding by Generative
Pre-Training, sections 3.1 and 4.1) adds token and position embeddings, h_0 = U W_e + W_p. L layers
of causal self-attention follow, with post-norm and with GELU by its tanh approximation; P(u) =
softmax(h_L W_e^T). In GPT-2 (Radford et al. 2019, Language Models are Unsupervised Multitask
Learners, section 2.3) the norms stand before each part, one more norm follows the last layer, and
the matrices that end a residual branch start scaled by 1 / sqrt(2 L).

Two things differ from the papers: the normal distribution that initializes weights is truncated at
two standard deviations, and a new model predicts tokens by their frequencies
(`models/gpt/initialization.py`). When a text is continued, keys and values are kept
(`nn/transformer/cache.py`).

Letters: N tokens, H hidden, L layers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from bertwright.models.gpt.config import GptConfig
from bertwright.nn.encoder import EncoderSpec
from bertwright.nn.init import initialize, truncated_normal
from bertwright.nn.transformer.embeddings import Embeddings
from bertwright.nn.transformer.layers import layers_of
from bertwright.nn.transformer.stack import CachedStack


class GptEmbeddings(Embeddings):
    """The sum of token and position embeddings."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__(config.hidden_dropout_prob)
        self.token = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)

    def sum(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        total: Tensor = self.token(ids) + self.position(positions)
        return total


def gpt_spec(config: GptConfig) -> EncoderSpec:
    return EncoderSpec(
        width=config.hidden_size,
        depth=config.num_hidden_layers,
        vocab_size=config.vocab_size,
        max_length=config.max_position_embeddings,
        causal=True,
        reads_last=True,
        averages_end=False,
    )


class Gpt(CachedStack):
    """The encoder of GPT. Its output layer is `nn/outputs/next_token.py`, tied to the
    embeddings.
    """

    pre_norm = False

    def __init__(self, config: GptConfig) -> None:
        super().__init__(gpt_spec(config))
        self.config = config
        self.embeddings = GptEmbeddings(config)
        self.layers = layers_of(config, causal=True, pre_norm=self.pre_norm)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw matrices from a truncated normal distribution; biases are 0 and norms 1."""
        initialize(self, self.config.initializer_range, generator)

    @property
    def last_norm(self) -> nn.LayerNorm:
        """The norm whose output is the last layer."""
        last = self.layer(len(self.layers) - 1)
        norm = last.final_norm if self.pre_norm else last.feed_forward_norm
        assert isinstance(norm, nn.LayerNorm)
        return norm


class Gpt2(Gpt):
    """The encoder of GPT-2."""

    pre_norm = True

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize as GPT does, but scale the matrices that end a residual branch by 1 / sqrt(2
        L).
        """
        super().reset_parameters(generator)
        std = self.config.initializer_range / math.sqrt(2 * len(self.layers))
        for layer in map(self.layer, range(len(self.layers))):
            truncated_normal(layer.attention.output.weight, std, generator)
            truncated_normal(layer.feed_forward.output.weight, std, generator)
