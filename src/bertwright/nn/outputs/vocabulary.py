"""Output layers over the vocabulary: `logits = t(x) W^T + b`.

W is usually the table of token embeddings of the encoder (tied weights; Press and Wolf 2017). t is
the identity, or a dense layer, an activation and a norm (the masked-LM head of Devlin et al. 2019,
section 3.1, and of google-research/bert).

Letters: K rows, H hidden, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertwright.nn.encoder import Transform
from bertwright.nn.objective import Loss
from bertwright.nn.outputs.output import vocabulary_loss
from bertwright.nn.outputs.transform import DenseNorm
from bertwright.nn.products import product, with_whole_blocks


class VocabularyOutput(nn.Module):
    """A mix-in for objectives that predict tokens.

    Objectives inherit it rather than contain it, so that the bias is called `objectives.NAME.bias`
    in files.
    """

    def __init__(
        self,
        vocab_size: int,
        embeddings: nn.Embedding | None = None,
        *,
        bias: bool = True,
        transform: Transform | None = None,
    ) -> None:
        """Build the layer.

        Args:
            vocab_size: V.
            embeddings: the encoder's token embeddings `[V, H]`, used as W; None: set later by
                `tie_to`, or `weight` is overridden.
            bias: whether there is a b.
            transform: the sizes of t; None: t is the identity.
        """
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if bias else None
        self.transform: nn.Linear | None = None
        self.norm: nn.LayerNorm | None = None
        if transform is not None:
            made = DenseNorm(transform)  # its parts are called `transform` and `norm` in files
            self.transform, self.norm, self._activation = made.dense, made.norm, made.activation
        # A tuple hides the table from `parameters()`: it stays a parameter of the encoder alone.
        self._tied: tuple[nn.Embedding, ...] = () if embeddings is None else (embeddings,)

    def tie_to(self, embeddings: nn.Embedding) -> None:
        """Use a table of token embeddings `[V, H]` as W."""
        self._tied = (embeddings,)

    @property
    def weight(self) -> Tensor:
        """Return W, `[V, H]`: the vector that scores each token of the vocabulary."""
        return self._tied[0].weight

    def transformed(self, x: Tensor) -> Tensor:
        """Return t(x): x `[K, H]` -> `[K, H]`, or `[K, transform.output]` if that is set."""
        if self.transform is None or self.norm is None:
            return x
        normed: Tensor = self.norm(self._activation(self.transform(x)))
        return normed

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits of every token: x `[K, H]` -> `[K, V]` float32."""
        return product(self.transformed(x), self.weight, self.bias).float()

    def cross_entropy(self, x: Tensor, labels: Tensor, smoothing: float = 0.0) -> Loss:
        """Return the cross-entropy of labels `[K]` given x `[K, H]`, summed over K.

        `smoothing` is the fraction of the target distribution that is uniform over the vocabulary.
        """
        bias = self.weight.new_zeros(len(self.weight)) if self.bias is None else self.bias
        x = self.transformed(with_whole_blocks(x)).contiguous()
        loss = vocabulary_loss(x, self.weight, bias, labels, smoothing)
        return Loss(loss.total, len(labels), loss.correct)

    def output_flops(self, rows: int) -> float:
        """Return the floating-point operations of t and W over K rows, forward and backward."""
        dense = 0 if self.transform is None else self.transform.weight.numel()
        return 6.0 * rows * (dense + self.weight.numel())
