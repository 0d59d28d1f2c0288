"""Every system of the catalogue and a toy beside them: a tiny run of each, or a tiny folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bertwright.checkpoint import checkpoint
from bertwright.config import values
from bertwright.config.run import RunConfig, StepRun
from bertwright.data.shards import Shards, open_shards
from bertwright.models.catalogue import MODELS, trainable
from bertwright.models.load import load
from bertwright.models.system import System
from bertwright.nn.objective import Learner
from bertwright.recipes.configure import configure
from bertwright.recipes.pretrain import make_learner
from tests.contract import toy, toy_kind
from tests.small_runs import build_data, build_pairs, build_stories, mapping_of, train

GPT = {
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
WORD_VECTORS = {"architecture": {"hidden_size": 12}, "workers": 1}
RUNS: dict[str, dict[str, Any]] = {
    "bert": {"model": "bert-tiny"},
    "bert-ltr": {"model": "bert-tiny-ltr"},
    "roberta": {"model": "roberta-tiny"},
    "electra": {"model": "electra-tiny"},
    "albert": {"model": "albert-tiny", "architecture": {"num_hidden_layers": 2}},
    "modernbert": {
        "model": "modernbert-tiny",
        "architecture": {"num_hidden_layers": 2, "local_attention": 6},
    },
    "transformer": {
        "architecture": {
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "max_position_embeddings": 64,
        },
        "sequence_length": 32,
    },
    "bert2rnd": {
        "architecture": {
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "max_position_embeddings": 64,
            "num_decoder_layers": 1,
        },
        "sequence_length": 32,
    },
    "seq2seq": {
        "architecture": {"embedding_size": 12, "hidden_size": 16},
        "model": "seq2seq-base",
        "sequence_length": 32,
    },
    "awd-lstm": {
        "architecture": {"embedding_size": 12, "hidden_size": 20, "dropout_scale": 0.5},
        "optimizer": {"matrices": "adamw", "learning_rate": 0.05},
        "steps": 40,  # a dozen do not lower its held-out loss
    },
    "elmo": {"architecture": {"dim": 12, "projection_dim": 8, "output_size": 40}},
    "gpt": {"architecture": {**GPT, "num_attention_heads": 3}},
    "gpt2": {"architecture": GPT},
    "memory-network": {
        "architecture": {"hidden_size": 12, "memory_size": 6},
        "longest_story": 64,
    },
    "nnlm": {
        "architecture": {"hidden_size": 12, "context_size": 3, "direct_connections": True},
    },
    "ngram": {"architecture": {"order": 3}, "epochs": 1},
    "glove": WORD_VECTORS,
    "fasttext": {**WORD_VECTORS, "architecture": {"hidden_size": 12, "buckets": 50}},
    "word2vec": WORD_VECTORS,
    toy.NAME: {"architecture": {}},
}
"""What a tiny run of each system has beside `tests/small_runs.py`."""
MEMBER = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}
FOLDERS: dict[str, dict[str, Any]] = {
    "xlm-roberta": {**MEMBER, "first_position": 1},  # after the padding of the tokenizer here
    "camembert": {**MEMBER, "first_position": 1},
    "distilbert": MEMBER,
    "mpnet": MEMBER,
    "word-vectors": {"hidden_size": 12},
    "model2vec": {"hidden_size": 12},
}
"""The sizes of each system that has no runs: its models are folders of random weights."""
STEPS = 12
CHECKPOINTS = {"every_steps": 5, "keep": 8}
"""The oldest that is kept is of step 5, also where each pass is saved."""


def mapping(system: str, data: Path, out: Path, **over: Any) -> dict[str, Any]:
    """A run of a system, as a configuration file has it; keys that it lacks are left out."""
    run = trainable()[system]
    length = {"steps" if issubclass(run, StepRun) else "epochs": STEPS}
    base = {
        **mapping_of(data, out, **length),
        "model": MODELS[system].default,
        "sequence_length": 20,
    }
    made = {**base, **RUNS[system], **over}
    read = values.keys_of(run)
    return values.nested({key: v for key, v in values.flatten(made).items() if key in read})


def config_of(system: str, data: Path, out: Path, **over: Any) -> RunConfig:
    """The same as a configuration."""
    return configure(trainable()[system], mapping(system, data, out, **over))


@pytest.fixture(autouse=True, scope="package")
def with_the_toy() -> Iterator[None]:
    """The toys are in the catalogues, for the tests of this folder alone."""
    with pytest.MonkeyPatch.context() as patch:
        toy.add_system(patch, toy.TOY)
        toy_kind.add_toy_kind(patch)
        yield


@pytest.fixture(scope="package", params=(*MODELS, toy.NAME))
def name(request: pytest.FixtureRequest) -> str:
    """Of a system."""
    known = {**RUNS, **FOLDERS}
    assert request.param in known, f"tests/contract/conftest.py has no sizes of {request.param}"
    return str(request.param)


@pytest.fixture(scope="package")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Shards of a few thousand tokens, made when first wanted: "text", "pairs" or "stories"."""
    make = {"text": build_data, "pairs": build_pairs, "stories": build_stories}
    return cache(lambda kind: make[kind](tmp_path_factory.mktemp(kind)))


@pytest.fixture(scope="package")
def data(name: str, built: Callable[[str], Path]) -> Path:
    """Those that a system trains on."""
    return built(MODELS[name].reads)


@pytest.fixture(scope="package")
def shards(data: Path) -> Shards:
    """The same, opened."""
    return open_shards(data)


@pytest.fixture(scope="package")
def system(name: str) -> System:
    """The system."""
    return load(name)


@pytest.fixture(scope="package")
def config(name: str, data: Path) -> RunConfig:
    """A tiny run of it without dropout."""
    if name in FOLDERS:
        pytest.skip("is not pre-trained")
    made = config_of(name, data, data / "run")
    off = {each.name: 0.0 for each in fields(made.architecture) if "drop" in each.name}
    return replace(made, architecture=replace(made.architecture, **off))


@pytest.fixture
def learner(name: str, system: System, shards: Shards, request: pytest.FixtureRequest) -> Learner:
    """Its learner in float64, every parameter random: zeros would hide a mistake."""
    if name in FOLDERS:
        return random_learner(system, shards).double()
    made = make_learner(request.getfixturevalue("config"), shards).double()
    return randomized(made)


def random_learner(system: System, shards: Shards) -> Learner:
    """A model of a system that has no runs, with all its heads."""
    sizes = FOLDERS[system.row.name]
    model = system.row.config(vocab_size=shards.vocab_size, **sizes)
    return randomized(system.make_learner(model, system.objectives))


def randomized(learner: Learner) -> Learner:
    """The learner, with a random number added to every number."""
    generator = torch.Generator().manual_seed(1)
    for parameter in learner.parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
        parameter.data.add_(noise * 0.1)
    return learner


@pytest.fixture(scope="package")
def folder(
    name: str,
    system: System,
    shards: Shards,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Path:
    """A model of it: a finished run, or a folder of random weights."""
    if name not in FOLDERS:
        return Path(request.getfixturevalue("run"))
    path = tmp_path_factory.mktemp(name) / "model"
    path.mkdir()
    checkpoint.save(path, random_learner(system, shards), shards.tokenizer_folder, "a card")
    return path


@pytest.fixture(scope="package")
def run(name: str, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of it."""
    if name in FOLDERS:
        pytest.skip("is not pre-trained")
    out = tmp_path_factory.mktemp(name) / "run"
    train(config_of(name, data, out, checkpoint=CHECKPOINTS))
    return out


def gradients(learner: Learner, batches: list[Any]) -> dict[str, Tensor]:
    """Of one step over all batches: sums added up, divided once."""
    learner.zero_grad()
    counts = {name: sum(learner.counts(b)[name] for b in batches) for name in learner.objectives}
    for batch in batches:
        losses = learner(batch)
        assert {name: loss.count for name, loss in losses.items()} == learner.counts(batch)
        sum(loss.total / counts[name] for name, loss in losses.items()).backward()
    return {name: p.grad.clone() for name, p in learner.named_parameters() if p.grad is not None}
