"""The initialization of BERT: from the training data, or as published.

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
- In the first layer, head h has a shift s of -1, +1, -2, +2, ...; where attention is causal, of
  -1, -2, -3, .... On those D dimensions, its queries add a rotation of each (sin, cos) pair by w_i
  s, and its keys the identity, both times a gain. As (sin w(p + s), cos w(p + s)) is the pair of
  position p rotated by w s, the query at p is most similar to the key at p + s.

The left-to-right BERT is initialized in the same way, so that it differs from BERT only in what a
token sees and predicts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bertwright.config.run import EvaluatedRun
from bertwright.data.frequencies import log_frequencies, sample_training_tokens
from bertwright.data.shards import Shards
from bertwright.models.bert.config import BertRun, LeftToRightBertRun, TokenInitializationConfig
from bertwright.models.bert.encoder import Bert
from bertwright.models.bert.token_vectors import make_token_vectors
from bertwright.models.system import RunSources
from bertwright.nn.init import initialize
from bertwright.nn.objective import Learner


def initialize_from_data(
    learner: Learner, config: BertRun | LeftToRightBertRun, shards: Shards, sources: RunSources
) -> None:
    """Initialize all weights in place; held-out documents are not counted."""
    encoder = learner.encoder
    assert isinstance(encoder, Bert)
    bert, start = encoder.config, config.start
    generator = torch.Generator().manual_seed(config.seed)
    initialize(learner, bert.initializer_range, generator)
    embeddings, std = encoder.embeddings, start.embedding_std
    initialize(embeddings, std, generator)
    if start.aimed_heads:
        qkv = encoder.layer(0).attention.qkv.weight
        shifts = [shift_of(head, bert.causal) for head in range(bert.num_attention_heads)]
        aim_heads(embeddings.position_vectors, qkv, shifts, std)
    head = learner.objectives["next_token" if bert.causal else "masked_lm"]
    bias = head.get_parameter("bias")
    initialize_from_counts(embeddings.token.weight, bias, config, start, shards, generator)


def initialize_from_counts(
    table: Tensor,
    bias: Tensor,
    config: EvaluatedRun,
    start: TokenInitializationConfig,
    shards: Shards,
    generator: torch.Generator,
) -> None:
    """Initialize token vectors `[V, H]` and the bias of the output layer `[V]` from the training
    data, in place. `start` says which of them; held-out documents are not counted."""
    if not (start.counted_vectors or start.frequency_bias):
        return
    tokens = sample_training_tokens(config, shards)
    if start.counted_vectors:
        vectors = make_token_vectors(tokens, len(table), table.shape[1], config.seed)
        place_vectors(table, torch.from_numpy(vectors), start.embedding_std, generator)
    if start.frequency_bias:
        with torch.no_grad():
            bias.copy_(torch.from_numpy(log_frequencies(tokens, len(bias))))


LOWEST, HIGHEST = 1.0, 3.1
"""The range of frequencies, in radians per token."""
GAIN = 1.5
"""The factor of the rotations in queries and keys."""
KNOWN = 0.9
"""The weight of the known vector in a token's initial vector; the rest is noise."""


@torch.no_grad()
def aim_heads(positions: Tensor, qkv: Tensor, shifts: Sequence[int], std: float) -> None:
    """Initialize position vectors as sinusoids, and heads to attend to neighbours; in place.

    Args:
        positions: `[T, H]`, the position embeddings.
        qkv: `[3 H, H]`, the weights of the first layer's queries, keys and values.
        shifts: the shift of each of the A heads.
        std: the standard deviation of the embeddings.
    """
    longest, hidden = positions.shape
    head_size = hidden // len(shifts)
    width = head_size // 2 * 2  # D, even
    near = torch.linspace(LOWEST, HIGHEST, width // 2)
    far = 10000.0 ** (-torch.arange((hidden - width + 1) // 2) / max(1, (hidden - width) / 2))
    angles = torch.arange(longest)[:, None] * torch.cat([near, far])
    waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :hidden]
    positions.copy_(waves * std * math.sqrt(2))
    for head, shift in enumerate(shifts):
        rows = slice(head * head_size, head * head_size + width)
        qkv[rows, :width] += GAIN * _rotation(near * shift)
        keys = slice(hidden + rows.start, hidden + rows.stop)
        qkv[keys, :width] += GAIN * torch.eye(width)


@torch.no_grad()
def place_vectors(tokens: Tensor, vectors: Tensor, std: float, generator: torch.Generator) -> None:
    """Initialize token embeddings from known vectors, in place.

    A random rotation makes all dimensions alike. A little noise distinguishes tokens that have
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


def shift_of(head: int, causal: bool = False) -> int:
    """Return the shift of a head: -1, +1, -2, +2, ... for heads 0, 1, 2, 3, ...; -1, -2, ... where
    attention is causal."""
    if causal:
        return -1 - head
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
