"""transformers' BERT with random weights, and ours with the same, read through a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bertwright.checkpoint.checkpoint import load
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.nn.layers.dropout import Dropout
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

# All different, so that a swapped axis cannot pass.
SMALL = {
    "vocab_size": 61,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 19,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
TINY = {
    "vocab_size": 30522,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 512,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


@dataclass(frozen=True)
class Labelled(MaskedBatch):
    """One batch in both shapes: end to end for us, padded for transformers."""

    padded: dict[str, Tensor]

    def pack(self, x: Tensor) -> Tensor:
        """`[B, T, ...]` -> `[N, ...]`"""
        return torch.cat([x[b, :n] for b, n in enumerate(self.inputs.sequences.lengths)])


@pytest.fixture
def make_pair(tmp_path: Path) -> Callable[..., tuple[Any, Learner]]:
    """Their `BertForPreTraining` and our learner, of one set of weights."""

    def make(**settings: Any) -> tuple[Any, Learner]:
        torch.manual_seed(7)
        config = transformers.BertConfig(**{**SMALL, **settings})
        config._attn_implementation = "eager"
        theirs = transformers.BertForPreTraining(config)
        if config.hidden_size < 100:
            # Biases and norms start as 0 and 1 and would hide a mistake.
            for parameter in theirs.parameters():
                parameter.data.add_(torch.randn_like(parameter) * 0.15)
        theirs.save_pretrained(tmp_path / "theirs")
        return theirs, load(tmp_path / "theirs").learner

    return make


def make_batch(vocab: int, lengths: list[int], share: float = 0.3) -> Labelled:
    """Random ids (0 is the pad), random segment bounds, random labels."""
    chance = torch.Generator().manual_seed(len(lengths))
    longest = max(lengths)
    shape = (len(lengths), longest)
    attention = torch.zeros(shape, dtype=torch.long)
    types = torch.zeros(shape, dtype=torch.long)
    for row, length in enumerate(lengths):
        attention[row, :length] = 1
        types[row, length // 2 : length] = 1
    ids = torch.randint(1, vocab, shape, generator=chance) * attention
    chosen = (torch.rand(shape, generator=chance) < share) & (attention == 1)
    chosen[:, 0] = True
    wanted = torch.randint(1, vocab, shape, generator=chance)
    labels = wanted.masked_fill(~chosen, -100)
    follows = torch.randint(0, 2, (len(lengths),), generator=chance)
    padded = {
        "input_ids": ids,
        "token_type_ids": types,
        "attention_mask": attention,
        "labels": labels,
        "next_sentence_label": follows,
    }
    real = attention.bool()
    positions = chosen[real].nonzero()[:, 0]
    return Labelled(
        Inputs(ids[real], Sequences(lengths), types[real]),
        positions,
        labels[real][positions],
        follows,
        torch.arange(len(lengths)),
        padded,
    )


@pytest.fixture
def batches() -> dict[str, Labelled]:
    """Mixed lengths in any order, with equal ones side by side, and with none."""
    return {
        "mixed": make_batch(61, [17, 13, 13, 13, 9, 4, 9, 2]),
        "full": make_batch(61, [19] * 5),
        "one": make_batch(61, [11]),
    }


@pytest.fixture
def tiny_batch() -> Labelled:
    """A batch for the published vocabulary."""
    return make_batch(30522, [128, 97, 97, 40, 7], share=0.15)


TOLERANCE = 1e-5


def near(ours: Tensor, theirs: Tensor, what: str) -> None:
    """Within 1e-5, and of the same shape."""
    assert ours.shape == theirs.shape, what
    assert (ours - theirs).abs().max() <= TOLERANCE, what


class SharedMasks:
    """Dropout in both models with one set of masks, drawn once for each place of the network.

    A place is told by the order of calls: embeddings, then in every layer the attention
    probabilities `[B, A, T, T]`, the attention's output and the feed-forward output `[B, T, H]`.
    Ours are the same masks cut to each sequence's length.
    """

    def __init__(self, batch: Labelled, heads: int, hidden: int, layers: int, share: float) -> None:
        chance = torch.Generator().manual_seed(3)
        count, longest = batch.inputs.sequences.count, batch.inputs.sequences.longest
        self.batch = batch
        self.share = share

        def draw(*shape: int) -> Tensor:
            return (torch.rand(shape, generator=chance) >= share) / (1 - share)

        self.hidden = [draw(count, longest, hidden) for _ in range(1 + 2 * layers)]
        self.attention = [draw(count, heads, longest, longest) for _ in range(layers)]

    def for_theirs(self) -> Callable[..., Tensor]:
        """In place of `torch.nn.functional.dropout`."""
        hidden, attention = iter(self.hidden), iter(self.attention)

        def dropout(x: Tensor, p: float, training: bool = True, inplace: bool = False) -> Tensor:
            assert training
            assert not inplace
            assert p == self.share
            return x * next(attention if x.dim() == 4 else hidden)

        return dropout

    def for_ours(
        self, places: Tensor | None, pooled: bool = True
    ) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
        """In place of `drop` in attention, and of `Dropout.forward`, where the last layer is read
        at `places` and, if `pooled`, by the pooler."""
        hidden, attention = iter(self.hidden), self._groups()
        first = self.batch.inputs.sequences.first
        read = torch.cat([first, places]) if pooled and places is not None else places

        def probabilities(x: Tensor, p: float) -> Tensor:
            assert p == self.share
            return x * next(attention).view_as(x)

        def forward(module: Dropout, x: Tensor) -> Tensor:
            assert module.p == self.share
            assert module.training
            mask = self.batch.pack(next(hidden))
            return x * (mask if len(mask) == len(x) else mask[read])

        return probabilities, forward

    def _groups(self) -> Iterator[Tensor]:
        for mask in self.attention:
            first = 0
            for group in self.batch.inputs.sequences.groups:
                rows = mask[first : first + group.count, :, : group.length, : group.length]
                first += group.count
                yield rows.reshape(-1)
