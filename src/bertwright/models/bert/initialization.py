"""The initialization of BERT: from the data, or as published.

The data-dependent initialization encodes three facts that a masked LM otherwise spends its first
minutes on: where the neighbours of a masked token are (`aim_heads`), which tokens are similar
(`models/bert/token_vectors.py`), and how frequent each token is. Embeddings are larger than
published: Adam changes a weight by about the learning rate in each step, so with a standard
deviation of 0.02 a few dozen steps could erase the positions and vectors. The architecture is
BERT's; only the initial values differ. `experiments/small_budget` measures the effect of each part.

A masked LM with learned positions first learns word frequencies. Its loss then stays on a plateau
until an attention head finds the neighbours of the masked token; a small budget ends on that
plateau. `aim_heads` shortens it by initial values, within the published architecture:

- Position vectors are sinusoids (Vaswani et al. 2017, section 3.5), scaled to the embeddings. Their
  first D = H / A dimensions have frequencies w_i evenly spaced from 1.0 to 3.1 radians per token,
  high enough that a shift of one token is a large rotation; the others are spaced as usual.
- In the first layer, head h has a shift s of -1, +1, -2, +2, .... On those D dimensions, its
  queries add a rotation of each (sin, cos) pair by w_i s, and its keys the identity, both times a
  gain. As (sin w(p + s), cos w(p + s)) is the pair of position p rotated by w s, the query at p is
  most similar to the key at p + s.
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
"""The number of tokens of training documents that are counted, which takes some seconds."""


def initialize_from_data(learner: Learner, config: BertRun, shards: Shards, opened: Opened) -> None:
    """Initialize all weights in place; held-out documents are not counted."""
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
        aim_heads(embeddings.position_vectors, qkv, bert.num_attention_heads, std)
    initialize_from_counts(embeddings.token.weight, masked_lm.bias, config, shards, generator)


def initialize_from_counts(
    table: Tensor, bias: Tensor, config: BertRun, shards: Shards, generator: torch.Generator
) -> None:
    """Initialize token vectors `[V, H]` and the bias of the masked LM `[V]` from the training data,
    in place, as far as a run wants it; held-out documents are not counted."""
    start, held = config.start, config.validation
    if not (start.counted_vectors or start.frequency_bias):
        return
    shards, documents, _ = split_text(shards, "train", held.fraction, held.hold_out)
    tokens = sample_tokens(shards, documents, COUNTED_TOKENS, config.seed)
    if start.counted_vectors:
        vectors = make_token_vectors(tokens, len(table), table.shape[1], config.seed)
        place_vectors(table, torch.from_numpy(vectors), start.embedding_std, generator)
    if start.frequency_bias:
        counts = np.bincount(tokens, minlength=len(table)) + 1.0
        logarithms = np.log(counts / counts.sum())
        with torch.no_grad():
            bias.copy_(torch.from_numpy(logarithms - logarithms.mean()))


LOWEST, HIGHEST = 1.0, 3.1
"""The range of frequencies, in radians per token."""
GAIN = 1.5
"""The factor of the rotations in queries and keys."""
KNOWN = 0.9
"""The weight of the known vector in a token's initial vector; the rest is noise."""


@torch.no_grad()
def aim_heads(positions: Tensor, qkv: Tensor, heads: int, std: float) -> None:
    """Initialize position vectors as sinusoids, and heads to attend to neighbours; in place.

    Args:
        positions: `[T, H]`, the position embeddings.
        qkv: `[3 H, H]`, the weights of the first layer's queries, keys and values.
        heads: A.
        std: the standard deviation of the embeddings.
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
    """Initialize token embeddings from known vectors, in place.

    A random rotation makes all dimensions alike, and a little noise makes tokens differ that have
    equal vectors or none.

    Args:
        tokens: `[V, H]`, the token embeddings.
        vectors: `[V, H]`, of unit mean square.
        std: the root mean square to which they are scaled.
        generator: the source of all random numbers, on the CPU.
    """
    hidden = tokens.shape[1]
    rotation = torch.linalg.qr(torch.randn(hidden, hidden, generator=generator))[0]
    noise = torch.randn(tokens.shape, generator=generator)
    tokens.copy_(std * (KNOWN * vectors @ rotation + math.sqrt(1 - KNOWN**2) * noise))


def shift_of(head: int) -> int:
    """Return the shift of a head: -1, +1, -2, +2, ... for heads 0, 1, 2, 3, ..."""
    distance = head // 2 + 1
    return distance if head % 2 else -distance


def _rotation(angles: Tensor) -> Tensor:
    """Return the matrix that rotates each (sin, cos) pair by its angle: `[w]` -> `[2 w, 2 w]`."""
    rotations = torch.stack([angles.cos(), angles.sin(), -angles.sin(), angles.cos()], -1)
    size = 2 * len(angles)
    blocks = torch.zeros(len(angles), 2, len(angles), 2)
    pairs = torch.arange(len(angles))
    blocks[pairs, :, pairs, :] = rotations.view(-1, 2, 2)
    return blocks.view(size, size)
