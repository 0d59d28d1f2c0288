"""How weights start: as published, or with attention heads aimed at a token's neighbours.

A masked LM with learned positions first learns word frequencies, then waits on a plateau until
some head finds the tokens beside the masked one. A small budget ends on that plateau. `aim_heads`
ends it inside the published architecture, by the values the weights start from:

- position vectors start as sinusoids (Vaswani et al. 2017, section 3.5), scaled to the embeddings.
  Their first D = H / A dimensions have frequencies w_i evenly spaced from 1.0 to 3.1 radians a
  token, high enough that a shift of one token is a large turn; the rest are spaced as usual.
- in the first layer head h is given a shift s of -1, +1, -2, +2, ...: on those D dimensions its
  queries add a rotation of each (sin, cos) pair by w_i s, its keys the identity, both times a gain.
  As (sin w(p + s), cos w(p + s)) is the pair of position p turned by w s, the query at p is most
  like the key at p + s.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

LOWEST, HIGHEST = 1.0, 3.1  # radians a token
GAIN = 1.5
KNOWN = 0.9  # of a known vector in a token's initial one; the rest is noise


def initialize(module: nn.Module, std: float, generator: torch.Generator) -> None:
    """As published: matrices from a normal distribution truncated at two deviations, biases 0,
    norms 1.

    Args:
        module: changed in place, with all modules below it.
        std: standard deviation.
        generator: all that is random comes from it; on the CPU.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            truncated_normal(part.weight, std, generator)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, nn.Linear | nn.LayerNorm) and part.bias is not None:
            nn.init.zeros_(part.bias)


def truncated_normal(x: Tensor, std: float, generator: torch.Generator | None = None) -> Tensor:
    """Fill `x` of any shape from a normal distribution truncated at two deviations; in place."""
    if std == 0:
        return nn.init.zeros_(x)
    return nn.init.trunc_normal_(x, 0.0, std, -2 * std, 2 * std, generator=generator)


@torch.no_grad()
def aim_heads(positions: Tensor, qkv: Tensor, heads: int, std: float) -> None:
    """Start position vectors as sinusoids and a layer's heads on neighbours; in place.

    Args:
        positions: `[T, H]`, the position embeddings.
        qkv: `[3 H, H]`, weights of the first layer's queries, keys and values.
        heads: A.
        std: standard deviation of the embeddings.
    """
    longest, hidden = positions.shape
    width = hidden // heads // 2 * 2  # D, even
    near = torch.linspace(LOWEST, HIGHEST, width // 2)
    far = 10000.0 ** (-torch.arange((hidden - width + 1) // 2) / max(1, (hidden - width) / 2))
    angles = torch.arange(longest)[:, None] * torch.cat([near, far])
    waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :hidden]
    positions.copy_(waves * std * math.sqrt(2))
    head_size = hidden // heads
    for head in range(heads):
        rows = slice(head * head_size, head * head_size + width)
        qkv[rows, :width] += GAIN * _rotation(near * shift_of(head))
        keys = slice(hidden + rows.start, hidden + rows.stop)
        qkv[keys, :width] += GAIN * torch.eye(width)


@torch.no_grad()
def place_vectors(tokens: Tensor, vectors: Tensor, std: float, generator: torch.Generator) -> None:
    """Let token embeddings start from known vectors; in place.

    The vectors are rotated at random, so that no dimension stands out, and a little noise is added,
    so that tokens with equal vectors, or none, differ.

    Args:
        tokens: `[V, H]`, the token embeddings.
        vectors: `[V, H]`, of unit mean square.
        std: root mean square to scale them to.
        generator: all that is random comes from it; on the CPU.
    """
    hidden = tokens.shape[1]
    turn = torch.linalg.qr(torch.randn(hidden, hidden, generator=generator))[0]
    noise = torch.randn(tokens.shape, generator=generator)
    tokens.copy_(std * (KNOWN * vectors @ turn + math.sqrt(1 - KNOWN**2) * noise))


def shift_of(head: int) -> int:
    """-1, +1, -2, +2, ... for heads 0, 1, 2, 3, ..."""
    distance = head // 2 + 1
    return distance if head % 2 else -distance


def _rotation(angles: Tensor) -> Tensor:
    """Turns each (sin, cos) pair by its angle: `[w]` -> `[2 w, 2 w]`, block by block."""
    turn = torch.stack([angles.cos(), angles.sin(), -angles.sin(), angles.cos()], -1)
    size = 2 * len(angles)
    blocks = torch.zeros(len(angles), 2, len(angles), 2)
    pairs = torch.arange(len(angles))
    blocks[pairs, :, pairs, :] = turn.view(-1, 2, 2)
    return blocks.view(size, size)
