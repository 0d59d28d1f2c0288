"""A table of features gives back what the encoder said, in any order of rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bertwright.errors import BertwrightError
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.transfer.features import FeatureTable

SPEC = EncoderSpec(width=6, depth=3, vocab_size=50)


def encoded(lengths: list[int], scale: float = 1.0) -> Encoded:
    chance = torch.Generator().manual_seed(sum(lengths))
    layers = tuple(torch.randn(sum(lengths), 6, generator=chance) * scale for _ in range(4))
    return Encoded(Sequences(lengths), layers[-1], layers)


def test_rows_come_back_as_layers(tmp_path: Path) -> None:
    table = FeatureTable(tmp_path / "table", 10, [3, 1], SPEC)
    seen = encoded([4, 3, 3])
    rows = torch.tensor([7, 0, 3, 9, 1, 2, 8, 4, 6, 5])
    table.put(rows, seen)
    asked = torch.tensor([9, 9, 0])
    found = table(Inputs(asked, Sequences([2, 1])), top=3, keep_layers=True)
    for number in (1, 3):
        expected = seen.layers[number][[3, 3, 1]]
        torch.testing.assert_close(found.layers[number], expected, rtol=1e-3, atol=1e-3)
    assert found.layers[0].numel() == found.layers[2].numel() == 0
    assert torch.equal(found.last, found.layers[3])


@pytest.mark.parametrize("scale", [float("nan"), 1e6])
def test_numbers_that_float16_cannot_hold_are_refused(tmp_path: Path, scale: float) -> None:
    table = FeatureTable(tmp_path / "table", 3, [2], SPEC)
    with pytest.raises(BertwrightError, match="float16"):
        table.put(torch.arange(3), encoded([3], scale))
