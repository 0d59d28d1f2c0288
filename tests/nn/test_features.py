"""Which layers are features, and how they are mixed."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from bertwright.config.task import Layers
from bertwright.errors import ConfigError
from bertwright.nn.features import LayerMix, layer_numbers

LAYERS = tuple(torch.randn(5, 3, generator=torch.Generator().manual_seed(n)) for n in range(7))


@pytest.mark.parametrize(
    ("layers", "count", "numbers"),
    [
        ("embeddings", 6, (0,)),
        ("last", 6, (6,)),
        ("second-to-last", 6, (5,)),
        ("sum-last-4", 6, (3, 4, 5, 6)),
        ("mix-last-4", 4, (1, 2, 3, 4)),
        ("concat-last-4", 6, (3, 4, 5, 6)),
        ("mix", 2, (0, 1, 2)),
        ("embeddings+last", 6, (0, 6)),
    ],
)
def test_numbers(layers: Layers, count: int, numbers: tuple[int, ...]) -> None:
    assert layer_numbers(layers, count) == numbers


def test_every_name_has_numbers_and_its_width() -> None:
    for layers in get_args(Layers):
        mix = LayerMix(layers, 6)
        assert mix(LAYERS).shape == (5, mix.width([3] * 7))
        wide = {"concat-last-4": 12, "embeddings+last": 6}
        assert mix.width([3] * 7) == wide.get(layers, 3)


@pytest.mark.parametrize("layers", ["sum-last-4", "mix-last-4", "concat-last-4"])
def test_too_few_layers(layers: Layers) -> None:
    with pytest.raises(ConfigError, match=f"'{layers}'.*3 layers.*4"):
        LayerMix(layers, 3)


@pytest.mark.parametrize(("layers", "number"), [("embeddings", 0), ("second-to-last", 5)])
def test_one_layer(layers: Layers, number: int) -> None:
    mix = LayerMix(layers, 6)
    assert mix(LAYERS) is LAYERS[number]
    assert not list(mix.parameters())


def test_sum_and_concatenation() -> None:
    a, b, c, d = LAYERS[3:]
    torch.testing.assert_close(LayerMix("sum-last-4", 6)(LAYERS), a + b + c + d)
    assert torch.equal(LayerMix("concat-last-4", 6)(LAYERS), torch.cat([a, b, c, d], 1))
    both = LayerMix("embeddings+last", 6)
    assert torch.equal(both(LAYERS), torch.cat([LAYERS[0], d], 1))
    assert both.width([3, 4, 4, 4, 4, 4, 5]) == 8
    with pytest.raises(ConfigError, match=r"layer.*embeddings"):
        LayerMix("embeddings+last", 0)


@pytest.mark.parametrize(("layers", "first"), [("mix", 0), ("mix-last-4", 3)])
def test_mix_is_equation_1(layers: Layers, first: int) -> None:
    mix = LayerMix(layers, 6)
    start = torch.stack(LAYERS[first:]).mean(0)
    torch.testing.assert_close(mix(LAYERS), start)  # w is 0, gamma 1
    mix.weights.data = torch.linspace(-1.0, 2.0, 7 - first)
    mix.gamma.data.fill_(1.7)
    powers = mix.weights.exp()
    expected = sum(p / powers.sum() * x for p, x in zip(powers, LAYERS[first:], strict=True)) * 1.7
    torch.testing.assert_close(mix(LAYERS), expected)
    mix(LAYERS).square().sum().backward()
    assert mix.weights.grad.abs().min() > 0
    assert mix.gamma.grad.abs() > 0
    assert set(mix.state_dict()) == {"weights", "gamma"}


@pytest.mark.parametrize("layers", ["mix", "mix-last-4", "sum-last-4"])
def test_sums_are_float32(layers: Layers) -> None:
    halves = tuple(layer.bfloat16() for layer in LAYERS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        summed = LayerMix(layers, 6)(halves)
    assert summed.dtype == torch.float32
    torch.testing.assert_close(summed, LayerMix(layers, 6)(tuple(half.float() for half in halves)))
