"""Features out of an encoder: which layers and how they become one vector a token, and how a
text's tokens become one vector.

The rows of the BERT paper's table 7 (Devlin et al. 2019, section 5.3), and ELMo's learned sum
(Peters et al. 2018, equation 1) of K layers:

    gamma * sum_k softmax(w)_k h_k

| layers | numbers | width |
|---|---|---|
| embeddings; last; second-to-last | 0; L; L - 1 | H |
| embeddings+last | 0 and L, side by side: GloVe and CoVe (McCann et al. 2017) | their sum |
| sum-last-4 | the last four, plainly added | H |
| mix-last-4 | the last four, gamma and softmax(w) learned | H |
| concat-last-4 | the last four, side by side | 4 H |
| mix | the embeddings and all L, gamma and softmax(w) learned | H |

Of the poolings, `weighted` is the position-weighted mean of SGPT (Muennighoff 2022, section 4.1):
`sum_t t x_t / sum_t t`, t from 1.

Letters: N tokens, H hidden, L layers of the encoder, K layers that are read, F width of a feature,
B sequences, T a length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from bertwright.arrays import Bools
from bertwright.config.task import Layers
from bertwright.config.vectors import poolings_of
from bertwright.errors import ConfigError
from bertwright.nn.host import send, send_numbers
from bertwright.nn.sequences import Sequences


def layer_numbers(layers: Layers, count: int) -> tuple[int, ...]:
    """The layers that are read, 0 the embeddings, rising.

    Args:
        layers: their name.
        count: L.

    Raises:
        ConfigError: more layers than the encoder has.
    """
    if layers.endswith("last-4"):
        if count < 4:
            raise ConfigError(
                f"layers is '{layers}', but the encoder has {count} "
                f"{'layer' if count == 1 else 'layers'}; it needs 4 or more: "
                "use last, second-to-last or mix"
            )
        return tuple(range(count - 3, count + 1))
    if layers == "embeddings+last":
        if not count:
            raise ConfigError(
                "layers is 'embeddings+last', but the encoder has no layer above its embeddings: "
                "use last"
            )
        return (0, count)
    if layers == "mix":
        return tuple(range(count + 1))
    return ({"embeddings": 0, "second-to-last": count - 1, "last": count}[layers],)


class LayerMix(nn.Module):
    """One vector a token out of the layers of an encoder."""

    def __init__(self, layers: Layers, count: int) -> None:
        super().__init__()
        self.numbers = layer_numbers(layers, count)
        self.concatenated = layers in ("embeddings+last", "concat-last-4")
        self.weights: nn.Parameter | None = None
        self.gamma: nn.Parameter | None = None
        if layers.startswith("mix"):
            self.weights = nn.Parameter(torch.zeros(len(self.numbers)))
            self.gamma = nn.Parameter(torch.ones(()))

    def width(self, widths: Sequence[int]) -> int:
        """F, for an encoder whose layers, from the embeddings, are so wide.

        Raises:
            ConfigError: layers of different widths cannot be added.
        """
        read = [widths[number] for number in self.numbers]
        if not self.concatenated and len(set(read)) > 1:
            raise ConfigError(
                f"layers of {', '.join(map(str, read))} numbers cannot be added: use last, "
                "second-to-last or embeddings"
            )
        return sum(read) if self.concatenated else read[0]

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """All layers of an encoder, embeddings first, each `[N, H]` -> `[N, F]`; sums float32."""
        read = [layers[number] for number in self.numbers]
        if len(read) == 1:
            return read[0]
        if self.concatenated:
            return torch.cat(read, -1)
        if self.weights is None or self.gamma is None:
            return torch.stack([layer.float() for layer in read]).sum(0)
        weights = self.gamma * self.weights.softmax(0)  # [K]
        mixed = weights[0] * read[0].float()
        for weight, layer in zip(weights[1:], read[1:], strict=True):
            mixed = mixed + weight * layer.float()
        return mixed


class Inside:
    """The tokens of each sequence that are averaged, where these are not all.

    Of a sequence that has none, its first token stays: there is one vector for each.
    """

    def __init__(
        self, sequences: Sequences, frame: tuple[int, int], averaged: Bools | None = None
    ) -> None:
        """Choose the tokens.

        Args:
            sequences: B lengths that sum to N.
            frame: tokens at the begin and at the end of each that are left out.
            averaged: `[N]`, whether each token may be averaged; None: all may.
        """
        starts, stops = np.array(sequences.offsets[:-1]), np.array(sequences.offsets[1:])
        kept = np.ones(sequences.total, np.bool_) if averaged is None else averaged.copy()
        for n in range(frame[0]):
            kept[np.minimum(starts + n, stops - 1)] = False
        for n in range(frame[1]):
            kept[np.maximum(stops - 1 - n, starts)] = False
        self.counts = np.add.reduceat(kept, starts, dtype=np.int64)
        """`[B]` tokens of each sequence that are averaged."""
        self.empty = np.flatnonzero(self.counts == 0).tolist()
        """Numbers of the sequences that have none."""
        kept[starts[self.empty]] = True
        self.rows = send(torch.from_numpy(np.flatnonzero(kept)), sequences.device)
        self.sequences = Sequences(np.maximum(self.counts, 1).tolist(), sequences.device)

    def __call__(self, x: Tensor) -> Tensor:
        """x `[N, H]` of all tokens -> `[N', H]` of those that are averaged."""
        return x.index_select(0, self.rows)


def pool(
    x: Tensor, sequences: Sequences, pooling: str, starts: Sequence[int] | None = None
) -> Tensor:
    """Pool each sequence by itself: no number depends on its neighbours in the batch.

    Args:
        x: `[N, H]`.
        sequences: B lengths that sum to N.
        pooling: `cls`, `last`, `mean`, `mean-sqrt`, `max` or `weighted`, or several (`cls+mean`),
            P of them.
        starts: for `weighted`, B positions to count from, where a sequence is a
            window of a longer text; unset: all 0.

    Returns:
        `[B, P H]` float32.
    """
    if pooling in ("none", "first-last"):
        raise ValueError(f"pooling {pooling!r} is not of one layer; the caller resolves it")
    modes = poolings_of(pooling)
    if modes == ("cls",):
        return x[sequences.first].float()
    if x.is_cuda:
        offsets = list(starts) if starts else [0] * sequences.count
        found = [_pool_segments(x.float(), sequences, mode, offsets) for mode in modes]
        return torch.cat(found, 1)
    parts, done = [], 0
    for group in sequences.groups:
        rows = x[group.start : group.stop].float()
        rows = rows.view(group.count, group.length, -1)  # [b, T, H]
        offsets = list(starts[done : done + group.count]) if starts else [0] * group.count
        found = [_pool_rows(rows, mode, offsets) for mode in modes]
        parts.append(torch.cat(found, 1) if len(found) > 1 else found[0])
        done += group.count
    return torch.cat(parts)


def _pool_rows(rows: Tensor, mode: str, offsets: list[int]) -> Tensor:
    """`[b, T, H]` -> `[b, H]`"""
    if mode == "weighted":
        return _weighted(rows, offsets)
    if mode in ("cls", "last"):
        return rows[:, 0 if mode == "cls" else -1]
    if mode == "max":
        return rows.amax(1)
    mean = rows.mean(1)
    return mean * math.sqrt(rows.shape[1]) if mode == "mean-sqrt" else mean


def _pool_segments(x: Tensor, sequences: Sequences, mode: str, starts: list[int]) -> Tensor:
    """All sequences at once, `[N, H]` -> `[B, H]`: on a GPU the groups of equal lengths, which are
    fast on a CPU, would be hundreds of small kernels."""
    ends = sequences.cu_seqlens.long()
    if mode in ("cls", "last"):
        return x.index_select(0, ends[:-1] if mode == "cls" else ends[1:] - 1)
    if mode == "max":
        found: Tensor = torch.segment_reduce(x, "max", offsets=ends, unsafe=True)
        return found
    weights = x.new_ones(len(x), 1)
    if mode == "weighted":
        first = send_numbers(starts, x.device).index_select(0, sequences.index)
        weights = (sequences.positions + 1 + first)[:, None].to(x.dtype)
    both = torch.cat([x * weights, weights], 1)
    sums: Tensor = torch.segment_reduce(both, "sum", offsets=ends, unsafe=True)
    total, weight = sums[:, :-1], sums[:, -1:]
    return total / (weight.sqrt() if mode == "mean-sqrt" else weight)


def _weighted(rows: Tensor, offsets: list[int]) -> Tensor:
    """`[b, T, H]` and b positions to count from -> `[b, H]`"""
    positions = torch.arange(1, rows.shape[1] + 1, device=rows.device, dtype=torch.float32)
    weights = positions + send_numbers(offsets, rows.device)[:, None]  # [b, T]
    weights = weights / weights.sum(1, keepdim=True)
    return (rows * weights[:, :, None]).sum(1)
