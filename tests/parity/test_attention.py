"""Attention maps are transformers' `output_attentions`, and torch's of encoder and decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.checkpoint import checkpoint
from bertwright.inference.attention.maps import maps_of
from bertwright.nn.encoder import HasAttentionMaps
from bertwright.nn.sequences import Inputs, Sequences
from tests.parity import test_gpt, test_transformer
from tests.parity.conftest import transformers


def ours(encoder: torch.nn.Module, ids: list[list[int]]) -> list[list[Any]]:
    """Of each sequence of a batch, the maps of every layer."""
    assert isinstance(encoder, HasAttentionMaps)
    flat = torch.tensor([each for row in ids for each in row])
    with torch.inference_mode():
        encoded = encoder(Inputs(flat, Sequences(list(map(len, ids)))), keep_layers=True)
    return list(maps_of(encoder, encoded))


@pytest.mark.parametrize("name", ["bert", "gpt2", "openai-gpt"])
def test_maps_are_those_of_transformers(name: str, tmp_path: Path, make_pair: Any) -> None:
    if name == "bert":
        theirs, learner = make_pair()
    else:
        theirs = test_gpt.make_theirs(name)
        theirs.save_pretrained(tmp_path / "gpt")
        learner = checkpoint.load(tmp_path / "gpt").learner
        theirs = transformers.AutoModel.from_pretrained(
            tmp_path / "gpt", attn_implementation="eager"
        )
    theirs.eval()
    generator = torch.Generator().manual_seed(1)
    ids = [torch.randint(6, 61, (n,), generator=generator).tolist() for n in (11, 7, 3)]
    for row, found in zip(ids, ours(learner.eval().encoder, ids), strict=True):
        with torch.inference_mode():
            expected = theirs(torch.tensor([row]), output_attentions=True).attentions
        assert len(found) == len(expected) == 3
        for layer, their_layer in zip(found, expected, strict=True):
            assert layer.shape == (4, len(row), len(row))
            torch.testing.assert_close(
                torch.from_numpy(layer), their_layer[0], rtol=1e-5, atol=1e-6
            )


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_maps_of_a_decoder_are_torchs(norm: str) -> None:
    learner, reference = test_transformer.make(norm)
    learner.eval()
    reference.eval()
    source, target = (
        Inputs(torch.tensor(ids), Sequences([len(ids)])) for ids in ([3, 9, 4, 11, 7], [2, 8, 5])
    )
    expected: dict[str, list[torch.Tensor]] = {"self_attn": [], "multihead_attn": []}

    def keep(name: str) -> Any:
        def hook(module: Any, args: Any, options: Any, output: Any) -> None:
            options = {**options, "need_weights": True, "average_attn_weights": False}
            _, weights = type(module).forward(module, *args, **options)
            expected[name].append(weights[0])

        return hook

    for layer in reference.decoder.layers:
        for name in expected:
            getattr(layer, name).register_forward_hook(keep(name), with_kwargs=True)
    translation, encoder = learner.objectives["translation"], learner.encoder
    embed = encoder.embeddings
    x, y = (embed(each.ids, each.sequences.positions)[None] for each in (source, target))
    causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
    with torch.no_grad():
        reference(x, y, tgt_mask=causal)
        own, over = translation.decoder.attention_maps(encoder(source), target)
    for found, name in ((own, "self_attn"), (over, "multihead_attn")):
        assert len(found) == len(expected[name]) == test_transformer.L
        for layer, their_layer in zip(found, expected[name], strict=True):
            torch.testing.assert_close(layer.double(), their_layer, rtol=1e-5, atol=1e-6)
