"""BERT of google-research/bert: names, shapes, what training left, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bertwright.checkpoint.checkpoint import load
from bertwright.checkpoint.find import find_checkpoint
from bertwright.errors import DataError, IntegrityError
from bertwright.inference.model import load as load_model
from bertwright.models.bert import tensorflow as tensorflow
from bertwright.models.bert.system import BERT
from bertwright.storage.tensor_bundle import write_bundle
from bertwright.storage.tensor_names import to_foreign
from tests.checkpoint.conftest import CONFIG, VOCABULARY, change, refused

PARTS = BERT.in_layout("tensorflow").mappings(CONFIG)
H, F, L = CONFIG.hidden_size, CONFIG.intermediate_size, CONFIG.num_hidden_layers


def published_names() -> dict[str, tuple[int, ...]]:
    """Names and shapes as google-research/bert's modeling.py and run_pretraining.py make them."""
    shapes: dict[str, tuple[int, ...]] = {
        "bert/embeddings/word_embeddings": (CONFIG.vocab_size, H),
        "bert/embeddings/token_type_embeddings": (2, H),
        "bert/embeddings/position_embeddings": (CONFIG.max_position_embeddings, H),
        "bert/embeddings/LayerNorm/beta": (H,),
        "bert/embeddings/LayerNorm/gamma": (H,),
        "bert/pooler/dense/kernel": (H, H),
        "bert/pooler/dense/bias": (H,),
        "cls/predictions/transform/dense/kernel": (H, H),
        "cls/predictions/transform/dense/bias": (H,),
        "cls/predictions/transform/LayerNorm/beta": (H,),
        "cls/predictions/transform/LayerNorm/gamma": (H,),
        "cls/predictions/output_bias": (CONFIG.vocab_size,),
        "cls/seq_relationship/output_weights": (2, H),
        "cls/seq_relationship/output_bias": (2,),
    }
    for layer in range(L):
        here = f"bert/encoder/layer_{layer}"
        for name in ("query", "key", "value"):
            shapes[f"{here}/attention/self/{name}/kernel"] = (H, H)
            shapes[f"{here}/attention/self/{name}/bias"] = (H,)
        for name, size in (("attention/output", (H, H)), ("intermediate", (H, F))):
            shapes[f"{here}/{name}/dense/kernel"] = size
            shapes[f"{here}/{name}/dense/bias"] = size[1:]
        shapes[f"{here}/output/dense/kernel"] = (F, H)
        shapes[f"{here}/output/dense/bias"] = (H,)
        for name in ("attention/output", "output"):
            shapes |= {f"{here}/{name}/LayerNorm/{kind}": (H,) for kind in ("beta", "gamma")}
    return shapes


@pytest.fixture
def published() -> dict[str, Tensor]:
    chance = torch.Generator().manual_seed(2)
    return {n: torch.randn(s, generator=chance) * 0.2 for n, s in published_names().items()}


@pytest.fixture
def folder(tmp_path: Path, published: dict[str, Tensor]) -> Path:
    path = tmp_path / "uncased_L-3_H-24_A-4"
    path.mkdir()
    write(path, published)
    keys = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    keys += ("vocab_size", "max_position_embeddings", "type_vocab_size", "hidden_dropout_prob")
    content = {key: getattr(CONFIG, key) for key in keys}
    # as published, keys that mean nothing to us among them
    content |= {"hidden_act": "gelu", "initializer_range": 0.02, "directionality": "bidi"}
    (path / "bert_config.json").write_text(json.dumps(content))
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return path


def write(folder: Path, tensors: dict[str, Tensor], name: str = "bert_model.ckpt") -> None:
    write_bundle(folder / name, tensors)


def test_the_table_has_the_published_names() -> None:
    table = [name for each in PARTS.values() for mapping in each for name in mapping.theirs]
    assert set(table) == published_names().keys()
    assert len(set(table)) == len(table)


def test_it_computes_what_its_formulas_say(folder: Path, published: dict[str, Tensor]) -> None:
    """google-research/bert's `x @ kernel + bias`, its pooler and its heads."""
    model = load_model(folder)
    assert model.heads == ("masked_lm", "next_sentence")
    assert model.tokenizer.vocab["[MASK]"] == 4
    state = model.runner.learner.state_dict()
    layer = "bert/encoder/layer_1/attention/self"
    for place, name in enumerate(("query", "key", "value")):
        part = state["encoder.layers.1.attention.qkv.weight"][place * H : (place + 1) * H]
        assert torch.equal(part, published[f"{layer}/{name}/kernel"].t())
    x = torch.randn(3, F)
    dense = model.runner.learner.encoder.layers[2].feed_forward.output
    kernel = published["bert/encoder/layer_2/output/dense/kernel"]
    bias = published["bert/encoder/layer_2/output/dense/bias"]
    assert torch.allclose(dense(x), x @ kernel + bias, atol=1e-6)
    head = model.runner.learner.objectives["next_sentence"]
    pooled = torch.randn(2, H)
    wanted = pooled @ published["cls/seq_relationship/output_weights"].t()
    wanted = wanted + published["cls/seq_relationship/output_bias"]
    assert torch.allclose(head.logits(pooled), wanted, atol=1e-6)


def test_what_we_write_reads_back(tmp_path: Path, folder: Path) -> None:
    learner = load(folder).learner
    (tmp_path / "again").mkdir()
    tensorflow.write(tmp_path / "again", to_foreign(learner.state_dict(), PARTS))
    for suffix in ("index", "data-00000-of-00001"):
        name = f"bert_model.ckpt.{suffix}"
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    text = (tmp_path / "again" / "checkpoint").read_text()
    assert text.splitlines()[0] == 'model_checkpoint_path: "bert_model.ckpt"'


def test_what_training_left(folder: Path, published: dict[str, Tensor]) -> None:
    slots = {f"{name}/{slot}": value for name, value in published.items() for slot in ("adam_m",)}
    slots["bert/pooler/dense/bias/adam_v"] = torch.ones(H)
    write(folder, {**published, **slots})
    report = load(folder).report
    assert report.left == (f"{len(published)} adam_m", "1 adam_v")
    assert set(report.matched) == published.keys()
    assert f"left by training, not loaded: {len(published)} adam_m, 1 adam_v" in str(report)


def test_parts_that_are_not_there(folder: Path, published: dict[str, Tensor]) -> None:
    bare = {n: v for n, v in published.items() if not n.startswith("cls/")}
    write(folder, {**bare, "output_weights": torch.ones(3, H), "output_bias": torch.ones(3)})
    report = load(folder).report
    assert report.parts == ("encoder", "pooler")
    assert set(report.missing) == {n for n in published if n.startswith("cls/")}
    assert set(report.unused) == {"output_weights", "output_bias"}
    assert "not used: output_bias" in str(report)


@pytest.mark.parametrize(
    ("keys", "ours"),
    [
        ({"hidden_act": "gelu"}, "gelu"),
        ({"hidden_act": "gelu", "bertwright_hidden_act": "gelu_tanh"}, "gelu_tanh"),
        ({"hidden_act": "gelu_new"}, "gelu_tanh"),
    ],
)
def test_both_gelus(folder: Path, keys: dict[str, str], ours: str) -> None:
    change(folder / "bert_config.json", **keys)
    assert load(folder).config.hidden_act == ours
    change(folder / "bert_config.json", bertwright_hidden_act=3)
    refused(folder, DataError, r"'hidden_act' in .*bert_config.json is 3")


def test_paths(folder: Path, published: dict[str, Tensor]) -> None:
    for name in ("bert_model.ckpt", "bert_model.ckpt.index"):
        assert find_checkpoint(folder / name) == folder
    write(folder, published, "model.ckpt-200")
    refused(folder, DataError, r"bert_model\.ckpt, model\.ckpt-200")
    other = {name: value + 1 for name, value in published.items()}
    write(folder, other, "model.ckpt-200")
    loaded = load(find_checkpoint(folder / "model.ckpt-200"))
    assert loaded.opened.folder == folder
    bias = published["bert/pooler/dense/bias"] + 1
    assert torch.equal(loaded.learner.encoder.pooler.dense.bias, bias)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"electra/embeddings/word_embeddings": (5, 4)}, "'electra/embeddings/word_embeddings'"),
        ({"_CHECKPOINTABLE_OBJECT_GRAPH": (1,)}, "a checkpoint of TensorFlow 2 objects"),
        ({"resnet/conv1/kernel": (3, 3)}, "a checkpoint of another model"),
        ({}, "it has no weights"),
    ],
)
def test_another_model(folder: Path, tensors: dict[str, tuple[int, ...]], message: str) -> None:
    write(folder, {name: torch.ones(shape) for name, shape in tensors.items()})
    refused(folder, DataError, message)


def test_lacking_left_over_and_of_another_shape(folder: Path, published: dict[str, Tensor]) -> None:
    lost, wide = (
        "bert/encoder/layer_1/output/dense/bias",
        "bert/encoder/layer_0/output/dense/kernel",
    )
    for other, message in (
        ({lost: None}, f"lacks '{lost}'"),
        ({"cls/predictions/output_bias": None}, "lacks 'cls/predictions/output_bias'"),
        ({"bert/encoder/x": torch.ones(2)}, "has 'bert/encoder/x', which no bert"),
        ({wide: torch.ones(H, F)}, rf"'{wide}' .* \[24, 40\]; .* asks for \[40, 24\]"),
    ):
        changed: dict[str, Any] = {**published, **other}
        write(folder, {name: x for name, x in changed.items() if x is not None})
        refused(folder, IntegrityError, message)
    write(folder, published)
    change(folder / "bert_config.json", num_hidden_layers=2)
    refused(folder, IntegrityError, "which no bert of its configuration has")


def test_what_is_damaged(folder: Path, published: dict[str, Tensor]) -> None:
    bad = torch.full((H,), float("inf"))
    write(folder, {**published, "bert/pooler/dense/bias": bad})
    refused(folder, DataError, "'bert/pooler/dense/bias'")
    (folder / "bert_config.json").unlink()
    refused(folder, DataError, r"bert_config\.json")


def test_a_variable_that_is_called_as_transformers_calls_ours(
    folder: Path, published: dict[str, Tensor]
) -> None:
    """It takes nothing's place, and where it may stand nowhere it is an error."""
    weight = published["cls/seq_relationship/output_weights"]
    write(folder, {**published, "cls.seq_relationship.weight": weight + 1})
    loaded = load(folder)
    assert loaded.report.unused == ("cls.seq_relationship.weight",)
    assert torch.equal(loaded.learner.objectives["next_sentence"].classifier.weight, weight)
    write(folder, {**published, "bert/pooler/dense/weight": torch.ones(H, H)})
    refused(folder, IntegrityError, "has 'bert/pooler/dense/weight'")
