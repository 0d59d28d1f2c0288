"""The parts of a head, and scores in float32."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from bertwright.config.task import HeadConfig
from bertwright.nn.features import pool
from bertwright.nn.sequences import Sequences
from bertwright.tasks.head import Scorer, make_parts, text_vectors


@pytest.mark.parametrize(
    ("head", "width", "layers"),
    [
        (HeadConfig(), 8, None),
        (HeadConfig(layers="concat-last-4"), 32, (3, 4, 5, 6)),
        (HeadConfig(layers="mix", network="bilstm", network_size=5), 10, (0, 1, 2, 3, 4, 5, 6)),
        (HeadConfig(network="bilstm", network_size=5), 10, None),
    ],
)
def test_parts(head: HeadConfig, width: int, layers: tuple[int, ...] | None) -> None:
    parts = make_parts(head, [8] * 7)
    assert parts.width == width
    assert parts.layers == layers
    assert (parts.mix is None) == (head.layers is None)
    assert (parts.network is None) == (head.network == "linear")


def test_text_vectors() -> None:
    windows, x = Sequences([4, 2]), torch.randn(6, 8)
    head = HeadConfig(pooling="mean", network="bilstm", network_size=5)
    assert torch.equal(text_vectors(x, windows, None, head), pool(x, windows, "mean"))
    network = make_parts(head, [8] * 7).network
    assert network is not None
    expected = torch.stack([part.amax(0) for part in network(x, [4, 2]).split([4, 2])])
    torch.testing.assert_close(text_vectors(x, windows, network, head), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scorer_is_exact_under_autocast(dtype: torch.dtype) -> None:
    scorer, x = Scorer(300, 2), torch.randn(7, 300).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = scorer(x)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, F.linear(x.float(), scorer.weight, scorer.bias))
