"""BERTs without a pooler, and with one segment or none, as their configuration says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

from bertwright.checkpoint.checkpoint import load, make_learner, save
from bertwright.errors import ConfigError
from bertwright.inference.backends.packed import PackedBackend, PackedStack
from bertwright.inference.backends.plain import PlainBackend
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.encoder import Bert
from bertwright.nn.sequences import Inputs, Sequences
from tests import small_bert
from tests.small_runs import build_data, config_of, newest, train

LENGTHS = [9, 5, 2]
ONE_SEGMENT = replace(small_bert.STILL, type_vocab_size=1)
NO_SEGMENTS = replace(small_bert.STILL, type_vocab_size=0)
NO_POOLER = replace(small_bert.STILL, pooler=False)
CONFIGS = [ONE_SEGMENT, NO_SEGMENTS, NO_POOLER, replace(NO_SEGMENTS, pooler=False)]


def inputs(with_segments: bool = False) -> Inputs:
    ids = torch.randint(53, (sum(LENGTHS),), generator=torch.Generator().manual_seed(3))
    segments = (torch.arange(len(ids)) % 2) if with_segments else None
    return Inputs(ids, Sequences(LENGTHS), segments)


def encoder_of(config: BertConfig) -> Bert:
    encoder = Bert(config).eval()
    small_bert.scatter(encoder, 0.2, 0.1)
    return encoder


@pytest.mark.parametrize("config", CONFIGS)
def test_a_folder_has_what_the_configuration_says(tmp_path: Path, config: BertConfig) -> None:
    learner = make_learner(config, ["masked_lm"])
    small_bert.scatter(learner, 0.2, 0.1)
    save(tmp_path, learner, None, "")
    written = json.loads((tmp_path / "config.json").read_text())
    assert written.get("pooler", True) == config.pooler
    names = load_file(tmp_path / "model.safetensors")
    assert any("pooler" in name for name in names) == config.pooler
    assert any("token_type" in name for name in names) == (config.type_vocab_size > 0)
    loaded = load(tmp_path)
    assert loaded.config == config
    assert loaded.report.started == ()
    spec = loaded.learner.encoder.spec
    assert (spec.pooled, spec.segments) == (config.pooler, max(1, config.type_vocab_size))
    for name, value in loaded.learner.state_dict().items():
        assert torch.equal(value, learner.state_dict()[name])


@pytest.mark.parametrize("config", [ONE_SEGMENT, NO_POOLER])
def test_it_is_what_transformers_computes(tmp_path: Path, config: BertConfig) -> None:
    learner = make_learner(config, []).eval()
    small_bert.scatter(learner, 0.2, 0.1)
    save(tmp_path, learner, None, "")
    pooled = config.pooler
    theirs = transformers.BertModel.from_pretrained(tmp_path, add_pooling_layer=pooled).eval()
    given = inputs()
    with torch.inference_mode():
        ours = learner.encoder(given)
        for number, ids in enumerate(given.ids.split(LENGTHS)):
            expected = theirs(ids[None])
            found = ours.last.split(LENGTHS)[number]
            torch.testing.assert_close(found, expected.last_hidden_state[0], atol=1e-5, rtol=0)
            if pooled:
                torch.testing.assert_close(
                    ours.pooled[number], expected.pooler_output[0], atol=1e-5, rtol=0
                )
    assert (ours.pooled is None) == (not pooled)


@pytest.mark.parametrize("config", [ONE_SEGMENT, NO_SEGMENTS])
def test_segments_of_pairs_are_not_read_where_there_are_none(config: BertConfig) -> None:
    encoder = encoder_of(config)
    with torch.inference_mode():
        assert torch.equal(encoder(inputs(True)).last, encoder(inputs()).last)


@pytest.mark.parametrize("config", CONFIGS)
def test_packed_weights_compute_the_same(config: BertConfig) -> None:
    encoder = encoder_of(config)
    given = [ids.tolist() for ids in inputs().ids.split(LENGTHS)]
    segments = [[0, *[1] * (length - 1)] for length in LENGTHS]
    packed = PackedBackend(PackedStack(encoder, torch.float32), 64, "packed")
    (expected,) = PlainBackend(encoder, 64).run(given, segments, (2,))
    (found,) = packed.run(given, segments, (2,))
    torch.testing.assert_close(found.layers[0], expected.layers[0], atol=1e-5, rtol=1e-5)


def test_a_run_without_pooler_and_segments(tmp_path: Path) -> None:
    data = build_data(tmp_path)
    sizes = {"pooler": False, "type_vocab_size": 1}
    objectives = {"instances": {"objectives": "mlm"}}
    train(config_of(data, tmp_path / "run", steps=3, architecture=sizes, **objectives))
    found = load(newest(tmp_path / "run"))
    assert (found.config.pooler, found.config.type_vocab_size) == (False, 1)
    assert found.report.parts == ("encoder", "masked_lm")
    with pytest.raises(ConfigError, match=r"architecture\.pooler"):
        train(config_of(data, tmp_path / "pairs", steps=3, architecture=sizes))
