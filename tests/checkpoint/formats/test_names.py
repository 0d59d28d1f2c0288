"""Formats: names are strict both ways; a new format is one entry."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from bertwright.checkpoint.checkpoint import load
from bertwright.errors import IntegrityError
from bertwright.models.bert.system import BERT
from bertwright.nn.objective import Learner
from bertwright.storage.tensor_names import to_foreign
from tests.checkpoint.conftest import CONFIG, assert_same, refused, rewrite

PARTS = BERT.mappings(CONFIG)
WORDS = "bert.embeddings.word_embeddings.weight"


@pytest.fixture
def tensors(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def test_each_foreign_tensor_has_its_own_memory(learner: Learner) -> None:
    foreign = to_foreign(learner.state_dict(), PARTS)
    places = [tensor.untyped_storage().data_ptr() for tensor in foreign.values()]
    assert len(set(places)) == len(places)


def test_parameters_that_are_not_those_of_the_format(learner: Learner) -> None:
    state = dict(learner.state_dict())
    with pytest.raises(IntegrityError, match=r"'encoder.extra'"):
        to_foreign({**state, "encoder.extra": torch.zeros(1)}, PARTS)
    del state["encoder.layers.2.attention.qkv.bias"]
    with pytest.raises(IntegrityError, match=r"lacks 'encoder.layers.2.attention.qkv.bias'"):
        to_foreign(state, PARTS)


KEY = "bert.encoder.layer.1.attention.self.key.weight"


@pytest.mark.parametrize(
    ("lost", "more", "message"),
    [
        (KEY, None, f"lacks '{KEY}'.*truncated"),
        ("cls.predictions.transform.dense.bias", None, "lacks 'cls.predictions.transform.dense"),
        (None, "bert.encoder.layer.3.output.dense.bias", "has 'bert.encoder.layer.3.* different"),
        (None, "bert.embeddings.LayerNorm.gamma", "one tensor twice"),
    ],
)
def test_tensors_that_are_missing_or_left_over(
    folder: Path, tensors: dict[str, Tensor], lost: str | None, more: str | None, message: str
) -> None:
    kept = {name: tensor for name, tensor in tensors.items() if name != lost}
    rewrite(folder, kept if more is None else {**kept, more: torch.ones(24)})
    refused(folder, IntegrityError, message)


def test_old_names_of_norms(folder: Path, tensors: dict[str, Tensor], learner: Learner) -> None:
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    assert set(old) != set(tensors)
    rewrite(folder, old)
    assert_same(load(folder).learner, learner)


def test_buffers_are_passed_over(
    folder: Path, tensors: dict[str, Tensor], learner: Learner
) -> None:
    for buffer in (torch.arange(17.0), torch.arange(17)):
        tensors["bert.embeddings.position_ids"] = buffer[None]
        rewrite(folder, tensors)
        assert_same(load(folder).learner, learner)


def test_a_bare_encoder(folder: Path, tensors: dict[str, Tensor], learner: Learner) -> None:
    bare = {n.removeprefix("bert."): t for n, t in tensors.items() if n.startswith("bert.")}
    rewrite(folder, bare)
    loaded = load(folder)
    assert loaded.report.parts == ("encoder", "pooler")
    assert "cls.predictions.bias" in loaded.report.missing
    assert "not in the file: cls.predictions" in str(loaded.report)
    assert_same(loaded.learner.encoder, learner.encoder)
    rewrite(folder, {**bare, "decoder.weight": torch.zeros(2)})
    refused(folder, IntegrityError, r"'decoder\.weight'.*bert")


def test_a_masked_lm_without_a_pooler(folder: Path, tensors: dict[str, Tensor]) -> None:
    kept = {n: t for n, t in tensors.items() if "pooler" not in n and "seq_rel" not in n}
    rewrite(folder, kept)
    loaded = load(folder)
    assert loaded.report.parts == ("encoder", "masked_lm")
    assert (loaded.report.started, loaded.config.pooler) == ((), False)
    assert loaded.learner.encoder.pooler is None
    assert not loaded.learner.encoder.spec.pooled
    heads, chance = ["masked_lm", "next_sentence"], torch.Generator().manual_seed(1)
    read = load(folder, heads, chance)  # a head that reads the pooler
    assert read.report.started == ("pooler", "next_sentence")
    assert 0 < read.learner.encoder.pooler.dense.weight.abs().max() <= 0.04


def test_a_decoder_written_out(folder: Path, tensors: dict[str, Tensor], learner: Learner) -> None:
    tensors["cls.predictions.decoder.weight"] = tensors[WORDS].clone()
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
    rewrite(folder, tensors)
    assert_same(load(folder).learner, learner)
    del tensors["cls.predictions.bias"]
    rewrite(folder, tensors)
    assert_same(load(folder).learner, learner)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_become_float32(
    folder: Path, tensors: dict[str, Tensor], dtype: torch.dtype
) -> None:
    rewrite(folder, {name: tensor.to(dtype) for name, tensor in tensors.items()})
    weight = load(folder).learner.encoder.embeddings.token.weight
    assert weight.dtype == torch.float32
    assert torch.equal(weight, tensors[WORDS].to(dtype).float())
