"""The layers of ModernBERT (Warner et al. 2024, section 2.1).

The layers differ from BERT's as follows:

- Norms come before each part, and nothing has a bias.
- The feed-forward part is gated (GeGLU; Shazeer 2020).
- Positions are rotary instead of position vectors (Su et al. 2021): queries and keys are rotated by
  an angle that grows with their position, so that a score depends on the distance of the two
  tokens.
- Attention is global in every third layer and local in the others, which have their own
  wavelengths.

Letters: N tokens, H hidden, A heads, D = H / A, F intermediate, T and S tokens of a sequence of
queries and of its keys.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.models.modernbert.config import ModernBertConfig
from bertwright.nn.layers.dropout import Dropout
from bertwright.nn.sequences import Located
from bertwright.nn.transformer.attention import SelfAttention
from bertwright.nn.transformer.layers import TransformerLayer


def make_norm(config: ModernBertConfig) -> nn.LayerNorm:
    """Return a norm without a bias."""
    return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=False)


class Rotation(torch.autograd.Function):
    """The rotation of pairs of dimensions, `(x, y) -> (x cos - y sin, y cos + x sin)`.

    x is a dimension of the first half of a head and y the same one of the second half. The rotation
    is computed in float32.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """Rotate x `[N, n, A, D]` by angles whose cosines and sines are `[N, 1, 1, D / 2]`."""
        ctx.save_for_backward(cosines, sines)
        first, second = x.float().chunk(2, -1)
        rotated = torch.empty_like(x, dtype=torch.float32, memory_format=torch.contiguous_format)
        low, high = rotated.chunk(2, -1)
        torch.mul(first, cosines, out=low).addcmul_(second, sines, value=-1)
        torch.mul(second, cosines, out=high).addcmul_(first, sines)
        return rotated.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient of x: the gradient of the result, rotated back."""
        cosines, sines = ctx.saved_tensors
        return Rotation.apply(gradient, cosines, -sines), None, None  # type: ignore[no-untyped-call]


class RotaryAttention(SelfAttention):
    """Attention with rotary positions, to all tokens of a sequence or to those of a window."""

    def __init__(self, config: ModernBertConfig, number: int) -> None:
        """Build the attention of layer `number`, counted from 0."""
        dropout = config.attention_probs_dropout_prob
        super().__init__(config.hidden_size, config.num_attention_heads, dropout, bias=False)
        wide = config.is_global(number)
        self.theta = config.global_rope_theta if wide else config.local_rope_theta
        self.reach = None if wide else config.local_attention // 2

    def parts(
        self, qkv: Tensor, sequences: Located, positions: Tensor | None = None
    ) -> list[Tensor]:
        rows = qkv.view(qkv.shape[0], 3, self.heads, -1)
        size = rows.shape[3]
        places = sequences.positions if positions is None else positions
        key = ("rotary", self.theta, size)
        cosines, sines = sequences.once(key, lambda: self._angles(places, size))
        rotated: Tensor = Rotation.apply(rows[:, :2], cosines, sines)  # type: ignore[no-untyped-call]
        return [rotated, rows[:, 2:]]

    def _angles(self, positions: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Return the cosines and sines of the angles of positions `[N]`, `[N, 1, 1, D / 2]` each:
        position p and pair i have the angle p / theta^(2 i / D)."""
        powers = torch.arange(0, size, 2, dtype=torch.float32, device=positions.device) / size
        angles = positions[:, None].float() * (1.0 / self.theta**powers)
        return angles.cos()[:, None, None], angles.sin()[:, None, None]


class GatedFeedForward(nn.Module):
    """`(gelu(x W1) * x V) W2` for each token, where W1 and V are the halves of one matrix."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        hidden, inside = config.hidden_size, config.intermediate_size
        self.intermediate = nn.Linear(hidden, 2 * inside, bias=False)
        self.output = nn.Linear(inside, hidden, bias=False)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the feed-forward part: x `[N, H]` -> `[N, H]`."""
        activated, gate = self.intermediate(x).chunk(2, -1)  # [N, F]
        output: Tensor = self.output(self.dropout(F.gelu(activated) * gate))
        return output


class ModernBertLayer(TransformerLayer):
    """A pre-norm layer without biases, whose attention may be local."""

    def __init__(self, config: ModernBertConfig, number: int) -> None:
        """Build layer `number`, counted from 0. Layer 0 has no norm before attention, because the
        norm of the embeddings precedes it."""
        super().__init__(
            attention=RotaryAttention(config, number),
            attention_norm=make_norm(config) if number else nn.Identity(),  # type: ignore[arg-type]
            feed_forward=GatedFeedForward(config),  # type: ignore[arg-type]
            feed_forward_norm=make_norm(config),
            dropout=config.attention_probs_dropout_prob,  # after attention alone
            pre_norm=True,
        )
        if number == config.num_hidden_layers - 1:
            self.final_norm = make_norm(config)

    def after_attention(self, x: Tensor, context: Tensor) -> Tensor:
        x = x + self.dropout(self.attention.output(context))
        return self.end(x + self.feed_forward(self.feed_forward_norm(x)))
