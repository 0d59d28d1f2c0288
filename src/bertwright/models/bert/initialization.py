"""How BERT's weights begin: from the data, or as published.

The data-dependent initialization gives a masked LM three cheap facts that it would otherwise spend
its first minutes on: where a masked token's neighbours are (`aim_heads`), which tokens are alike
(`models/bert/token_vectors.py`), and how frequent each is. Embeddings are larger than published:
Adam moves a number by about the learning rate a step, so at 0.02 a few dozen steps could erase what
the positions and vectors say. The architecture stays BERT's; only initial values differ. What each
part is worth is measured in `experiments/small_budget`.

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

import numpy as np
import torch
from torch import Tensor

from bertwright.data.shards import Shards
from bertwright.data.split import split_text
from bertwright.models.bert.config import BertRun
from bertwright.models.bert.encoder import Bert
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.token_vectors import make_token_vectors, sample_tokens
from bertwright.models.system import Opened
from bertwright.nn.init import initialize
from bertwright.nn.objective import Learner

COUNTED_TOKENS = 4_000_000
"""Tokens of training documents to count in: some seconds' work."""


def initialize_from_data(learner: Learner, config: BertRun, shards: Shards, opened: Opened) -> None:
    """Initialize all weights, in place; nothing is counted in held-out documents."""
    encoder, masked_lm = learner.encoder, learner.objectives["masked_lm"]
    assert isinstance(encoder, Bert)
    assert isinstance(masked_lm, MaskedLM)
    bert, start = encoder.config, config.start
    generator = torch.Generator().manual_seed(config.seed)
    initialize(learner, bert.initializer_range, generator)
    embeddings, std = encoder.embeddings, start.embedding_std
    initialize(embeddings, std, generator)
    if start.aimed_heads:
        qkv = encoder.layer(0).attention.qkv.weight
        aim_heads(embeddings.position.weight, qkv, bert.num_attention_heads, std)
    if not (start.counted_vectors or start.frequency_bias):
        return
    held = config.validation
    shards, documents, _ = split_text(shards, "train", held.fraction, held.hold_out)
    tokens = sample_tokens(shards, documents, COUNTED_TOKENS, config.seed)
    if start.counted_vectors:
        vectors = make_token_vectors(tokens, bert.vocab_size, bert.hidden_size, config.seed)
        place_vectors(embeddings.token.weight, torch.from_numpy(vectors), std, generator)
    if start.frequency_bias:
        counts = np.bincount(tokens, minlength=bert.vocab_size) + 1.0
        logarithms = np.log(counts / counts.sum())
        with torch.no_grad():
            masked_lm.bias.copy_(torch.from_numpy(logarithms - logarithms.mean()))


LOWEST, HIGHEST = 1.0, 3.1  # radians a token


GAIN = 1.5


KNOWN = 0.9  # of a known vector in a token's initial one; the rest is noise


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
