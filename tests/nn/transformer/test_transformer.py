"""Transformer layers against PyTorch's own, and what they compute at some positions."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bertwright.nn.sequences import Sequences
from bertwright.nn.transformer.attention import SelfAttention
from bertwright.nn.transformer.layers import FeedForward, TransformerLayer

LENGTHS = [6, 4, 4, 1]


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_as_pytorchs_layer(pre_norm: bool, causal: bool, activation: str) -> None:
    torch.manual_seed(0)
    norms = [nn.LayerNorm(12, eps=1e-5) for _ in range(2)]
    attention, inside = SelfAttention(12, 3, causal=causal), FeedForward(12, 20, activation)
    ours = TransformerLayer(attention, norms[0], inside, norms[1], 0.0, pre_norm).double()
    theirs = nn.TransformerEncoderLayer(
        12, 3, 20, 0.0, activation, 1e-5, batch_first=True, norm_first=pre_norm
    ).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    names = {
        "attention.qkv.weight": "self_attn.in_proj_weight",
        "attention.qkv.bias": "self_attn.in_proj_bias",
        "attention.output": "self_attn.out_proj",
        "attention_norm": "norm1",
        "feed_forward.intermediate": "linear1",
        "feed_forward.output": "linear2",
        "feed_forward_norm": "norm2",
    }
    state = {}
    for name, value in ours.state_dict().items():
        for our, their in names.items():
            if name.startswith(our):
                state[name.replace(our, their)] = value
    theirs.load_state_dict(state)
    x = torch.randn(sum(LENGTHS), 12).double()
    found = ours(x, Sequences(LENGTHS))
    for part, own in zip(x.split(LENGTHS), found.split(LENGTHS), strict=True):
        mask = nn.Transformer.generate_square_subsequent_mask(len(part)).double()
        expected = theirs(part[None], src_mask=mask if causal else None)[0]
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-10)
    at = torch.tensor([9, 0, 14])
    torch.testing.assert_close(ours(x, Sequences(LENGTHS), at), found[at])
