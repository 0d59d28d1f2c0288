"""BERT: pre-training of deep bidirectional Transformers (Devlin et al. 2019).

Section 3: the input is `[CLS] A [SEP] B [SEP]`; a token's first vector is the sum of its token,
position and segment embeddings, normalized; L Transformer layers follow; the pooler, a dense layer
with tanh over [CLS], stands for the whole sequence.

Where we differ: sequences lie end to end without padding (`nn/sequences.py`); queries, keys and
values are one product; the pooler is computed when an objective asks for it.

Letters: B sequences, N tokens in all, H hidden, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertwright.config.bert import BertConfig
from bertwright.models.encoder import Encoded
from bertwright.nn.dropout import Dropout
from bertwright.nn.init import cut_normal
from bertwright.nn.sequences import Sequences
from bertwright.nn.transformer import TransformerLayer


class Embeddings(nn.Module):
    """Token + position + segment, normalized."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.token = _vectors(config, config.vocab_size)
        self.position = _vectors(config, config.max_position_embeddings)
        self.segment = _vectors(config, config.type_vocab_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, sequences: Sequences) -> Tensor:
        """input_ids `[N]`, token_type_ids `[N]` -> `[N, H]`"""
        x = self.token(input_ids) + self.segment(token_type_ids)
        x = self.norm(x + self.position(sequences.positions))
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        dropped: Tensor = self.dropout(x)
        return dropped


def _vectors(config: BertConfig, count: int) -> nn.Embedding:
    """Started as published: where `nn.Embedding` draws its own it spreads them 50 times as wide,
    and on the meta device loads torch's compiler, which takes longer than a model."""
    start = cut_normal(torch.empty(count, config.hidden_size), config.initializer_range)
    made: nn.Embedding = nn.Embedding.from_pretrained(start, freeze=False)  # type: ignore[no-untyped-call]
    return made


class Pooler(nn.Module):
    """A dense layer with tanh over the first token."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, first: Tensor) -> Tensor:
        """Vectors of first tokens `[B, H]` -> `[B, H]`"""
        return torch.tanh(self.dense(first))


class Bert(nn.Module):
    """The encoder."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(
            TransformerLayer(
                config.hidden_size,
                config.num_attention_heads,
                config.intermediate_size,
                config.hidden_act,
                config.hidden_dropout_prob,
                config.attention_probs_dropout_prob,
                config.layer_norm_eps,
            )
            for _ in range(config.num_hidden_layers)
        )
        self.pooler = Pooler(config.hidden_size)

    def layer(self, number: int) -> TransformerLayer:
        """A layer, from 0 at the bottom."""
        layer = self.layers[number]
        assert isinstance(layer, TransformerLayer)
        return layer

    def forward(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        sequences: Sequences,
        top: int | None = None,
        keep_layers: bool = False,
        places: Tensor | None = None,
    ) -> Encoded:
        """Encode a batch.

        Args:
            input_ids: `[N]`, the sequences end to end.
            token_type_ids: `[N]`, 0 in segment A, 1 in B.
            sequences: the bounds.
            top: the highest layer to compute, 0 the embeddings; unset: all, and the pooler.
            keep_layers: return every layer, not only the last.
            places: `[R]`, where in N the last layer is read, beside the pooler; unset: everywhere.
                What the last layer makes of the other tokens is not computed.

        Returns:
            `last [N, H]` or `[R, H]`, `layers` of `[N, H]` each, `pooled [B, H]` if all layers ran.

        Raises:
            ValueError: a sequence is longer than the position embeddings, no such `top`, or
                `places` together with `top` or `keep_layers`.
        """
        if places is not None and (top is not None or keep_layers):
            raise ValueError("places are of the last layer: leave out top and keep_layers")
        if top is not None and not 0 <= top <= len(self.layers):
            raise ValueError(f"top is {top}; this BERT has layers 0 to {len(self.layers)}")
        if sequences.longest > self.config.max_position_embeddings:
            raise ValueError(
                f"a sequence has {sequences.longest} tokens; this BERT has positions for "
                f"{self.config.max_position_embeddings}: cut it or encode it in windows"
            )
        x = self.embeddings(input_ids, token_type_ids, sequences)
        kept = [x]
        for layer in self.layers[: top if places is None else -1]:
            x = layer(x, sequences)
            kept.append(x)
        if top is not None:
            return Encoded(sequences, x, tuple(kept) if keep_layers else ())
        if places is None:
            first = x.index_select(0, sequences.first)
        else:
            x = self.layers[-1](x, sequences, torch.cat([sequences.first, places]))  # [B + R, H]
            first, x = x.split([sequences.count, len(places)])
        layers = tuple(kept) if keep_layers else ()
        return Encoded(sequences, x, layers, self.pooler(first), places)


def training_flops(config: BertConfig, lengths: list[int], masked: int, rows: int) -> float:
    """Floating-point operations of a forward and backward pass over a batch.

    Counted are matrix products, two operations a multiply-add, the backward pass twice the forward
    (Kaplan et al. 2020, section 2.1): the layers, attention over each sequence, and the masked
    positions against the vocabulary. The last layer's output and feed-forward part are of `rows`.
    """
    hidden, layers = config.hidden_size, config.num_hidden_layers
    attention = sum(lengths) * 3 * hidden**2 + 2 * hidden * sum(length**2 for length in lengths)
    after = hidden**2 + 2 * hidden * config.intermediate_size
    tokens = (layers - 1) * sum(lengths) + rows
    vocabulary = masked * (hidden**2 + hidden * config.vocab_size)
    return 6.0 * (layers * attention + tokens * after + vocabulary)
