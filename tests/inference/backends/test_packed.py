"""The network that only reads: the numbers of the model, and those that nobody reads left out."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertwright.config.vectors import VectorConfig
from bertwright.inference.backends.agree import least_cosine
from bertwright.inference.backends.choice import other_texts
from bertwright.inference.backends.int8 import has_int8
from bertwright.inference.backends.packed import Attention, PackedStack, packable
from bertwright.inference.model import Model, load
from bertwright.models.modernbert.config import ModernBertConfig
from bertwright.models.modernbert.encoder import ModernBert
from bertwright.models.mpnet.config import MpnetConfig
from bertwright.models.mpnet.model import Mpnet
from bertwright.nn.products import rows_for
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.nn.transformer.attention import SelfAttention
from tests.small_bert import scatter, write_model

LONG = "a b c d e f g h i j k l m n o p q"  # 17 tokens in windows of 10


def given(lengths: list[int]) -> Inputs:
    """Ids and segments of some sequences."""
    ids = torch.randint(5, 40, (sum(lengths),), generator=torch.Generator().manual_seed(1))
    return Inputs(ids, Sequences(lengths), torch.arange(len(ids)) % 2)


def test_the_packed_model_is_the_model(model: Model) -> None:
    agrees(model.runner.encoder, torch.float32, 1e-5)


def agrees(encoder: Any, dtype: torch.dtype, tolerance: float) -> None:
    inputs = given([5, 3, 3, 1])
    with torch.inference_mode():
        right = encoder(inputs, keep_layers=True).layers
        found = PackedStack(encoder, dtype).run(inputs, (3, 0, 1))
    for layer, number in zip(found, (3, 0, 1), strict=True):
        assert layer.dtype == dtype
        torch.testing.assert_close(layer.float(), right[number], atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_scores_with_a_bias_by_distance(dtype: torch.dtype, tolerance: float) -> None:
    """Those of MPNet, which does not count the token 1; other layers are not packed."""
    sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
    encoder = Mpnet(MpnetConfig(**sizes, intermediate_size=24)).eval()
    scatter(encoder, 0.2, 0.1)
    encoder.embeddings.distance.weight.data *= 5
    assert packable(encoder) is encoder
    agrees(encoder, dtype, tolerance)
    assert packable(ModernBert(ModernBertConfig(**sizes, intermediate_size=24))) is None


@pytest.mark.parametrize("places", [[], [0], [4, 11, 0]])
def test_the_highest_layer_is_computed_where_it_is_read(model: Model, places: list[int]) -> None:
    packed, read = PackedStack(model.runner.encoder, torch.float32), given([5, 3, 3, 1])
    at = torch.tensor(places, dtype=torch.long)
    for layers in ((3,), (1, 2), (2, 0)):
        with torch.inference_mode():
            whole, found = packed.run(read, layers), packed.run(read, layers, at)
        for number, one, other in zip(layers, whole, found, strict=True):
            if number == max(layers):
                assert int(other.isfinite().all(1).sum()) == len(places)
                one, other = one[at], other[at]
            torch.testing.assert_close(other, one, atol=1e-6, rtol=0)


ENDS = [("cls", (-1,)), ("last", (-1,)), ("cls+last", (-2,)), ("cls", (1, 3)), ("cls", (0,))]


@pytest.mark.parametrize("prompt", ["", "k l"])
@pytest.mark.parametrize(("pooling", "layers"), ENDS)
def test_vectors_of_first_and_last_tokens_are_those_of_whole_layers(
    model_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    pooling: str,
    layers: tuple[int, ...],
    prompt: str,
) -> None:
    """Of windows too."""
    config = VectorConfig(layers, pooling=pooling, prompt=prompt)
    maker = load(model_folder, device="cpu").embedder(config)
    packed = maker.backend.packed
    seen: list[int] = []
    layer = packed.layers[max(0, max(maker.layers) - 1)]
    norm = layer.feed_forward_norm

    def counted(x: Tensor) -> Tensor:
        seen.append(len(x))
        return norm(x)

    layer.feed_forward_norm = counted
    texts = ["a b", "the quick.", "", "j", LONG, "c d e f g h", LONG]
    found = maker.embed(texts)
    ends, seen[:] = sum(seen), []
    monkeypatch.setattr(maker, "positions", lambda tokenized: None)
    np.testing.assert_allclose(found, maker.embed(texts), atol=1e-6)
    assert ends < sum(seen) / 2 or maker.layers == (0,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_copy_computes_the_same(model: Model, dtype: torch.dtype) -> None:
    packed, read = PackedStack(model.runner.encoder, dtype), given([5, 3, 3, 1])
    copied = pickle.loads(pickle.dumps(packed))
    for one, other in zip(packed.run(read, (1, 3)), copied.run(read, (1, 3)), strict=True):
        assert torch.equal(one, other)


def test_products_have_few_sizes() -> None:
    sizes = {tokens: rows_for(tokens) for tokens in range(1, 2049)}
    for tokens, rows in sizes.items():
        assert tokens <= rows <= max(tokens * (9 / 8 if tokens < 1024 else 17 / 16), tokens + 3)
    assert len(set(sizes.values())) <= 64


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 16, 96])
def test_attention_of_every_length_is_the_formula(length: int, dtype: torch.dtype) -> None:
    """Of two texts as long and one that is shorter, and of rows that belong to none."""
    sequences = Sequences([length + 1, length + 1, length])
    draws = torch.Generator().manual_seed(1)
    plain = SelfAttention(8, 2)
    attention = Attention(sequences, 2, torch.zeros(sequences.total + 3, 8, dtype=dtype))
    before = torch.randn(sequences.total + 3, 3 * 8, generator=draws).to(dtype)
    attention(before, plain)  # of a layer before
    qkv = torch.randn(sequences.total + 3, 3 * 8, generator=draws).to(dtype)
    found = attention(qkv, plain)
    assert found.dtype == dtype
    for start, stop in pairwise(sequences.offsets):
        q, k, v = qkv[start:stop].double().view(-1, 3, 2, 4).permute(1, 2, 0, 3)
        right = ((q @ k.mT).softmax(-1) @ v).transpose(0, 1).flatten(1)
        tolerance = 1e-5 if dtype == torch.float32 else 3e-2
        torch.testing.assert_close(found[start:stop].double(), right, atol=tolerance, rtol=0)
    assert not found[sequences.total :].any()


def test_scores_that_exp_cannot_take(model: Model) -> None:
    bert = model.runner.encoder
    bert.layer(0).attention.qkv.weight.data *= 60
    inputs = given([6])
    with torch.inference_mode():
        right = bert(inputs).last
        (found,) = PackedStack(bert, torch.float32).run(inputs, (3,))
    torch.testing.assert_close(found, right, atol=1e-4, rtol=1e-4)
    attention = Attention(Sequences([6]), 1, torch.zeros(6, 8, dtype=torch.bfloat16))
    for sign in (1, -1):  # exp of all scores would be infinite, or 0
        qkv = torch.ones(6, 24, dtype=torch.bfloat16)
        qkv[:, :16] *= 9
        qkv[:, 8:16] *= sign
        assert torch.equal(attention(qkv, SelfAttention(8, 1)), qkv[:, 16:])


@pytest.mark.skipif(not has_int8(), reason="needs a processor with 8-bit products")
def test_int8_of_texts_unlike_those_it_was_held_against(tmp_path: Path) -> None:
    """A file may begin with lines that are all alike, or all empty."""
    folder = write_model(tmp_path / "m", (), std=0.3, noise=0.3)
    texts = ["the quick.", LONG, "fishing, fishing!", "c d e f g h", "j", "k l ! ? . ,", "z y x w"]
    right = load(folder, device="cpu").embedder(VectorConfig((-1,))).embed(texts)
    for sample in (["a"] * 9, [""] * 9):
        maker = load(folder, device="cpu").embedder(
            VectorConfig((-1,)), precision="int8", sample=sample
        )
        found = torch.from_numpy(maker.embed(texts))
        assert least_cosine(found, torch.from_numpy(right)) > 0.98


def test_other_texts_are_of_the_vocabulary_too(model: Model) -> None:
    texts = other_texts(model.tokenizer)
    assert texts == other_texts(model.tokenizer)
    ids = {token for text in texts for token in model.tokenizer.encode(text).ids[1:-1]}
    assert model.tokenizer.special_ids & ids <= {model.tokenizer.unk_id}  # of ##ing alone
    assert len(ids) > 20
