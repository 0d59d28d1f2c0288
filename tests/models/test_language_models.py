"""How the output layers of language models begin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bertwright.data import frequencies
from bertwright.data.frequencies import log_frequencies, sample_training_tokens
from bertwright.data.randomness import make_key, permutation
from bertwright.data.shards import open_shards
from bertwright.data.split import split_text
from bertwright.models.catalogue import MODELS, make_run, trainable
from bertwright.models.gpt.encoder import Gpt
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.recipes.pretrain import make_learner
from tests.small_runs import build_data

SMALL = {
    "nnlm": {"architecture": {"hidden_size": 12}},
    "awd-lstm": {"architecture": {"embedding_size": 12, "hidden_size": 20}},
    "elmo": {"architecture": {"dim": 12, "projection_dim": 8, "output_size": 40}},
    "bert-ltr": {"model": "bert-tiny-ltr"},
}
"""Language models with an output bias."""


@pytest.mark.parametrize("system", SMALL)
def test_a_new_model_predicts_tokens_by_frequency(system: str, tmp_path: Path) -> None:
    data = build_data(tmp_path / "data")
    run = trainable()[system]
    files = {"data": str(data), "out": str(tmp_path / "run"), "steps": 1}
    config = make_run(run, {**files, "model": MODELS[system].default, **SMALL[system]})
    shards = open_shards(data)
    learner = make_learner(config, shards)
    name = "output.bias" if system == "elmo" else "bias"
    bias = learner.objectives["next_token"].get_parameter(name)
    counts = np.ones(len(bias))
    text, documents, _ = split_text(shards, "train", config.validation.fraction)
    for document in documents:  # held-out ones are not counted
        bounds = text.sentence_tokens[text.document_sentences]
        for token in text.tokens(int(bounds[document]), int(bounds[document + 1])):
            counts[min(token, len(bias) - 1)] += 1
    found = bias.detach().double().softmax(0).numpy()
    assert found == pytest.approx(counts / counts.sum(), rel=1e-5)
    assert sample_training_tokens(config, shards).size == counts.sum() - len(counts)


def test_counted_documents_are_drawn_by_the_generator_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = build_data(tmp_path / "data")
    run = trainable()["gpt"]
    config = make_run(run, {"data": str(data), "out": str(tmp_path / "run"), "steps": 1})
    shards = open_shards(data)
    text, documents, _ = split_text(shards, "train", config.validation.fraction)
    first = documents[permutation(make_key("frequencies", config.seed), len(documents))[0]]
    start, stop = text.sentence_tokens[text.document_sentences][first : first + 2]
    monkeypatch.setattr(frequencies, "COUNTED_TOKENS", 3)
    sampled = sample_training_tokens(config, shards)
    np.testing.assert_array_equal(sampled, text.tokens(int(start), min(int(start) + 3, int(stop))))


@pytest.mark.parametrize("system", ["gpt", "gpt2"])
def test_a_new_gpt_predicts_tokens_by_frequency_without_an_output_bias(
    system: str, tmp_path: Path
) -> None:
    data = build_data(tmp_path / "data")
    run = trainable()[system]
    config = make_run(run, {"data": str(data), "out": str(tmp_path / "run"), "steps": 1})
    shards = open_shards(data)
    learner = make_learner(config, shards)
    encoder = learner.encoder
    assert isinstance(encoder, Gpt)
    table = encoder.embeddings.token.weight.detach()
    tokens = sample_training_tokens(config, shards)
    expected = torch.from_numpy(log_frequencies(tokens, len(table))).float()
    torch.testing.assert_close(table @ encoder.last_norm.bias.detach(), expected)
    # What the model has read changes logits by embeddings that have no part in this.
    encoded = encoder(Inputs(torch.arange(5), Sequences([5])))
    read = encoded.last.detach() - encoder.last_norm.bias.detach()
    torch.testing.assert_close(read.mean(1), torch.zeros(5), atol=1e-5, rtol=0)
    spread = (table @ read.T).std(0)
    assert (spread < 2 * 0.02 * table.shape[1] ** 0.5).all()


def test_ids_beyond_the_last_count_as_it() -> None:
    frequencies = log_frequencies(np.array([0, 0, 0, 1, 2, 5]), 3)
    assert frequencies.mean() == pytest.approx(0)
    assert np.exp(frequencies - frequencies[1]) == pytest.approx([2.0, 1.0, 1.5])
    assert torch.from_numpy(frequencies).softmax(0).sum() == pytest.approx(1)
