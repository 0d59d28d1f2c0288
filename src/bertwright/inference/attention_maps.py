"""Who attends to whom: the attention probabilities of a layer, which no fast path keeps.

Vaswani et al. 2017, section 3.2: `softmax(Q K^T / sqrt(D))` in each of A heads, by plain products
from the vectors below the layer. Letters: T tokens of a text, H hidden, A heads, D = H / A.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bertwright.nn.attention import SelfAttention


def attention_map(attention: SelfAttention, x: Tensor) -> Tensor:
    """The probabilities with which each token of one sequence looks at each.

    Args:
        attention: of the layer.
        x: `[T, H]`, what the layer reads: the vectors of the layer below.

    Returns:
        `[A, T, T]` float32; each row sums to 1.
    """
    with torch.inference_mode():
        qkv = attention.qkv(x.to(attention.qkv.weight)).float()
        q, k, _ = qkv.view(len(x), 3, attention.heads, -1).permute(1, 2, 0, 3)  # [A, T, D]
        probabilities: Tensor = (q @ k.transpose(1, 2) * q.shape[-1] ** -0.5).softmax(-1)
    return probabilities
