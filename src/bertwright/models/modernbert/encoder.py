"""The encoder of ModernBERT (Warner et al. 2024).

The embedding of a token is its normalized vector, without positions: these rotate queries and keys
in every layer (`models/modernbert/layers.py`). A norm follows the last layer. The pooler is the
dense layer, GELU and norm that transformers stores as the head of a classifier, over [CLS] or over
the mean of all tokens. Heads that score tokens have their own dense layer, GELU and norm.

Letters: B sequences, N tokens in all, H hidden.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertwright.models.modernbert.config import ModernBertConfig
from bertwright.models.modernbert.layers import ModernBertLayer, RotaryAttention, make_norm
from bertwright.nn.encoder import Encoded, EncoderSpec, Transform
from bertwright.nn.init import initialize, truncated_normal
from bertwright.nn.outputs.transform import DenseNorm
from bertwright.nn.sequences import Inputs
from bertwright.nn.transformer.embeddings import Embeddings, make_table
from bertwright.nn.transformer.stack import CachedStack


def transform_of(config: ModernBertConfig) -> Transform:
    """Return the sizes of the transform before the scores of every head: a dense layer, GELU and a
    norm, without biases."""
    return Transform(config.hidden_size, "gelu", config.layer_norm_eps, bias=False)


class ModernBertEmbeddings(Embeddings):
    """The vectors of tokens, normalized."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__(config.hidden_dropout_prob)
        std = config.initializer_range
        self.token = make_table(config.vocab_size, config.hidden_size, std)
        self.norm = make_norm(config)

    def sum(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        normed: Tensor = self.norm(self.token(ids))
        return normed


def modernbert_spec(config: ModernBertConfig) -> EncoderSpec:
    return EncoderSpec(
        width=config.hidden_size,
        depth=config.num_hidden_layers,
        vocab_size=config.vocab_size,
        max_length=config.max_length,
        reads_pairs=True,
        prefixed=True,
        pooled=config.pooler,
        default_layer=-1,  # layers below are sums before any norm
        before_scores=transform_of(config),
        before_tokens=transform_of(config),
    )


class ModernBert(CachedStack):
    """The encoder of ModernBERT."""

    pooler: DenseNorm | None

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__(modernbert_spec(config))
        self.config = config
        self.embeddings = ModernBertEmbeddings(config)
        self.layers = nn.ModuleList(
            ModernBertLayer(config, number) for number in range(config.num_hidden_layers)
        )
        self.pooler = DenseNorm(transform_of(config)) if config.pooler else None

    def forward(
        self,
        inputs: Inputs,
        *,
        top: int | None = None,
        keep_layers: bool = False,
        positions: Tensor | None = None,
    ) -> Encoded:
        if self.pooler is not None and self.pooler_reads != "cls":
            positions = None  # the pooler reads all tokens
        return super().forward(inputs, top=top, keep_layers=keep_layers, positions=positions)

    @property
    def pooler_reads(self) -> str:
        return str(self.config.classifier_pooling)

    def flops(self, lengths: Sequence[int], last_rows: int) -> float:
        """Return the operations of the layers. In local attention only keys in the window count."""
        found = super().flops(lengths, last_rows)
        for layer in self.layers:
            attention = layer.attention
            assert isinstance(attention, RotaryAttention)
            if attention.reach is not None:
                window = 2 * attention.reach + 1
                unseen = sum(n * max(0, n - window) for n in lengths)
                found -= 6.0 * 2 * self.spec.width * unseen
        return found

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize matrices from a truncated normal distribution, and norms to 1.

        The standard deviation of the matrices that end a residual branch is divided by the square
        root of 2 L, the number of these branches.
        """
        std = self.config.initializer_range
        initialize(self, std, generator)
        for layer in self.layers:
            for linear in (layer.attention.output, layer.feed_forward.output):  # type: ignore[union-attr]
                scaled = std / math.sqrt(2 * len(self.layers))
                truncated_normal(linear.weight, scaled, generator)  # type: ignore[union-attr, arg-type]
