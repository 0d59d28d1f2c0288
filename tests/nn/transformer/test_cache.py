"""A cache of keys and values gives what reading everything again gives."""

from __future__ import annotations

import pytest
import torch

from bertwright.nn.sequences import Sequences
from bertwright.nn.transformer.attention import SelfAttention
from bertwright.nn.transformer.cache import SPARE, KeyValueCache

LAYERS, HEADS, SIZE = 2, 3, 4
WIDTH = HEADS * SIZE
ATTENTION = SelfAttention(WIDTH, HEADS, causal=True)


def whole(texts: list[torch.Tensor]) -> torch.Tensor:
    """The context at each text's last token, of everything read at once."""
    sequences = Sequences([len(text) for text in texts])
    context = ATTENTION.attend(ATTENTION.parts(torch.cat(texts), sequences), sequences)
    return context[torch.tensor(sequences.offsets[1:]) - 1]


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_one_token_at_a_time_is_all_at_once(kind: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    texts = [torch.randn(length, 3 * WIDTH).to(kind) for length in (5, 5, 2)]
    sequences = Sequences([5, 5, 2])
    cache = KeyValueCache.empty(LAYERS, HEADS, sequences, texts[0][:, :WIDTH])
    for layer in range(LAYERS):
        read = cache.read(layer, ATTENTION, torch.cat(texts), sequences)
    torch.testing.assert_close(read[[4, 9, 11]], whole(texts))

    def step() -> None:
        new = torch.randn(len(texts), 3 * WIDTH).to(kind)
        cache.grow()
        for layer in range(LAYERS):
            found = cache.attend(layer, ATTENTION, new, Sequences([1] * len(new)))
        for number, row in enumerate(new):
            texts[number] = torch.cat([texts[number], row[None]])
        torch.testing.assert_close(found, whole(texts), atol=tolerance, rtol=tolerance)

    for _ in range(SPARE + 3):  # past the room it began with
        step()
    rows = [2, 0, 0]
    texts, cache = [texts[row] for row in rows], cache.select(torch.tensor(rows))
    step()
    many = 300  # so many that its keys are a product of their own
    more = [torch.randn(many, 3 * WIDTH).to(kind)]
    other = KeyValueCache.empty(LAYERS, HEADS, Sequences([many]), more[0][:, :WIDTH])
    for layer in range(LAYERS):
        other.read(layer, ATTENTION, more[0], Sequences([many]))
    texts, cache = texts + more, cache.join(other)
    step()
    step()
