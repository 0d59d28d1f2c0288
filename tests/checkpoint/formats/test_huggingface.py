"""Hugging Face folders: transformers reads what we write, and hostile folders are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertwright.checkpoint.checkpoint import load, save, write_config
from bertwright.checkpoint.opened import open_model
from bertwright.errors import DataError, IntegrityError
from bertwright.models.bert.config import BertConfig
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences
from tests.checkpoint.conftest import CONFIG, assert_same, change, new_learner, refused


def test_transformers_gives_the_same_logits(folder: Path, learner: Learner) -> None:
    transformers = pytest.importorskip("transformers")
    ids = torch.randint(1, 35, (4, 13), generator=torch.Generator().manual_seed(1))
    types = (torch.arange(13) > 6).long().expand(4, 13)
    with torch.no_grad():
        encoded = learner.encoder(Inputs(ids.flatten(), Sequences([13] * 4), types.flatten()))
        tokens = learner.objectives["masked_lm"].logits(encoded.last).view(4, 13, -1)
        pairs = learner.objectives["next_sentence"].logits(encoded.pooled)
        inputs = {"input_ids": ids, "token_type_ids": types}
        model, report = transformers.AutoModelForPreTraining.from_pretrained(
            folder, output_loading_info=True
        )
        whole = model.eval()(**inputs)
        masked = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()(**inputs)
        bare = transformers.AutoModel.from_pretrained(folder).eval()(**inputs)
    assert not any(report.values()), report
    assert (whole.prediction_logits - tokens).abs().max() <= 1e-5
    assert (whole.seq_relationship_logits - pairs).abs().max() <= 1e-5
    assert (masked.logits - tokens).abs().max() <= 1e-5
    assert (bare.last_hidden_state - encoded.last.view(4, 13, -1)).abs().max() <= 1e-5
    assert (bare.pooler_output - encoded.pooled).abs().max() <= 1e-5


@pytest.mark.parametrize(
    ("objectives", "architecture"),
    [
        (("masked_lm", "next_sentence"), "BertForPreTraining"),
        (("masked_lm",), "BertForMaskedLM"),
        (("next_sentence",), "BertForNextSentencePrediction"),
        ((), "BertModel"),
    ],
)
def test_architectures(tmp_path: Path, objectives: tuple[str, ...], architecture: str) -> None:
    learner = new_learner(objectives)
    save(tmp_path, learner, None, "")
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["architectures"] == [architecture]
    assert written["model_type"] == "bert"
    loaded = load(tmp_path).learner
    assert tuple(loaded.objectives) == objectives
    assert_same(loaded, learner)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("gelu", "gelu"), ("gelu_new", "gelu_tanh"), ("gelu_pytorch_tanh", "gelu_tanh")],
)
def test_activations(folder: Path, theirs: str, ours: str) -> None:
    change(folder / "config.json", hidden_act=theirs)
    assert open_model(folder).config.hidden_act == ours
    write_config(folder, BertConfig(hidden_act=ours), frozenset())  # type: ignore[arg-type]
    written = json.loads((folder / "config.json").read_text())["hidden_act"]
    assert written == {"gelu": "gelu", "gelu_tanh": "gelu_new"}[ours]


HOSTILE: dict[str, list[Any]] = {
    "hidden_size": [10**400, 10**12, -24, 24.0, "24", None, [24]],
    "num_hidden_layers": [10**9, 0, True],
    "num_attention_heads": [5],
    "vocab_size": [10**18, ["x" * 99]],
    "max_position_embeddings": [2**62],
    "type_vocab_size": [-1],
    "intermediate_size": [{}],
    "hidden_dropout_prob": [float("nan"), "0.1"],
    "attention_probs_dropout_prob": [1.5],
    "layer_norm_eps": [float("inf"), True, 10**400],
    "initializer_range": [10**400],
    "hidden_act": ["relu", ["gelu"]],
    "model_type": ["t5", ["bert"]],
    "position_embedding_type": ["relative_key_query"],
    "is_decoder": [True, 0],
    "add_cross_attention": [True],
    "tie_word_embeddings": [False],
    "pruned_heads": [{"0": [1]}],
    "quantization_config": [{"bits": 4}],
}


@pytest.mark.parametrize("key", HOSTILE)
def test_hostile_configurations(folder: Path, key: str) -> None:
    for value in HOSTILE[key]:
        change(folder / "config.json", **{key: value})
        with pytest.raises(DataError, match=key) as caught:
            load(folder)
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe{}", b"[" * 100_000, b"[1, 2]", b"{}", b'{"model_type": "bert"}'],
)
def test_files_that_are_no_configuration(folder: Path, content: bytes) -> None:
    (folder / "config.json").write_bytes(content)
    refused(folder, DataError, r"config\.json")


def test_large_sizes_are_held_against_the_weights_before_memory_is_taken(folder: Path) -> None:
    """Every size within limits, 2 PB together: refused by the header, in no time."""
    change(
        folder / "config.json", hidden_size=65_536, intermediate_size=262_144, vocab_size=4_000_000
    )
    refused(folder, IntegrityError, r"has the shape \[37, 24\]; .* \[4000000, 65536\]")


def test_keys_that_change_nothing_and_later_ones_may_be_there_or_not(folder: Path) -> None:
    path = folder / "config.json"
    change(path, transformers_version="9", id2label={"0": "a"}, directionality="bidi")
    assert load(folder).config == CONFIG
    content = json.loads(path.read_text())
    for key in ("model_type", "layer_norm_eps", "position_embedding_type", "tie_word_embeddings"):
        del content[key]
    path.write_text(json.dumps(content))
    assert load(folder).config == CONFIG


@pytest.mark.parametrize("cut", [0, 5, 200, 10_000])
def test_cut_weights(folder: Path, cut: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    refused(folder, IntegrityError, "is truncated or damaged")


def test_no_weights_or_only_a_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    refused(folder, DataError, r"has no model.safetensors")
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    refused(folder, DataError, r"pickle.*bertwright convert .* DST")


@pytest.fixture
def sharded(folder: Path) -> Path:
    """The same weights in two files with an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {}
    for number, half in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2]), start=1):
        name = f"model-0000{number}-of-00002.safetensors"
        save_file({key: tensors[key] for key in half}, folder / name)
        places |= dict.fromkeys(half, name)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def reindex(folder: Path, change_map: Any) -> None:
    path = folder / "model.safetensors.index.json"
    change(path, weight_map=change_map(json.loads(path.read_text())["weight_map"]))


def test_shards(sharded: Path, learner: Learner) -> None:
    first = "model-00001-of-00002.safetensors"
    buffer = {"bert.embeddings.position_ids": torch.arange(17)[None]}
    assert_same(load(sharded).learner, learner)
    save_file({**load_file(sharded / first), **buffer}, sharded / first)
    reindex(sharded, lambda places: {**places, **dict.fromkeys(buffer, first)})
    assert_same(load(sharded).learner, learner)
    reindex(sharded, lambda p: {k: v for k, v in p.items() if k != "cls.predictions.bias"})
    refused(sharded, IntegrityError, "list different tensors")
    (sharded / "model-00002-of-00002.safetensors").unlink()
    refused(sharded, IntegrityError, r"model-00002-of-00002\.safetensors")


@pytest.mark.parametrize(
    "name", ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "x.bin"]
)
def test_shards_stay_in_their_folder(sharded: Path, name: str) -> None:
    reindex(sharded, lambda places: {**places, "bert.pooler.dense.bias": name})
    refused(sharded, IntegrityError, "a shard is a file beside it")


@pytest.mark.parametrize("damage", [None, [], {}, {"a": 1}, {"a": {"b": "c"}}])
def test_a_damaged_index(sharded: Path, damage: Any) -> None:
    reindex(sharded, lambda places: damage)
    with pytest.raises(IntegrityError):
        load(sharded)
