"""Every system of the catalogue and a toy beside them: a tiny run of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.config import values
from bertwright.config.run import RunConfig
from bertwright.config.systems import RUN_CONFIGS
from bertwright.data.shards import Shards, open_shards
from bertwright.objectives.objective import Learner
from bertwright.recipes import pretrain as pretraining
from bertwright.recipes.finetune import run as finetuning
from bertwright.recipes.pretrain import make_learner
from bertwright.recipes.systems import SYSTEMS, System
from tests.contract import toy
from tests.recipes.sample import build_data, build_pairs, build_stories, mapping_of, train

GPT = {
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
RUNS: dict[str, dict[str, Any]] = {
    "bert": {},
    "bert-ltr": {"instances": None, "model": "bert-tiny-ltr", "sequence_length": 20},
    "transformer": {
        "architecture": {
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "max_position_embeddings": 64,
        },
        "instances": None,
        "model": "transformer-small",
        "sequence_length": 32,
    },
    "seq2seq": {
        "architecture": {"embedding_size": 12, "hidden_size": 16},
        "instances": None,
        "model": "seq2seq-base",
        "sequence_length": 32,
    },
    "awd-lstm": {
        "architecture": {"embedding_size": 12, "hidden_size": 20, "dropout_scale": 0.5},
        "instances": None,
        "model": "awd-lstm-small",
        "sequence_length": 20,
    },
    "elmo": {
        "architecture": {"dim": 12, "projection_dim": 8, "output_size": 40},
        "instances": None,
        "model": "elmo-mini",
        "sequence_length": 20,
    },
    "openai-gpt": {
        "architecture": {**GPT, "num_attention_heads": 3},
        "instances": None,
        "model": "gpt-mini",
        "sequence_length": 20,
    },
    "gpt2": {
        "architecture": GPT,
        "instances": None,
        "model": "gpt2-mini",
        "sequence_length": 20,
    },
    "memory-network": {
        "architecture": {"hidden_size": 12, "memory_size": 6},
        "instances": None,
        "model": "memory-network",
        "longest_story": 64,
    },
    "nnlm": {
        "architecture": {"hidden_size": 12, "context_size": 3, "direct_connections": True},
        "instances": None,
        "model": "nnlm-small",
        "sequence_length": 20,
    },
    "ngram": {
        **dict.fromkeys(("instances", "optimizer", "batch"), None),
        "architecture": {"order": 3},
        "epochs": 1,
        "model": "ngram",
    },
    "glove": {
        **dict.fromkeys(("instances", "optimizer", "batch", "validation"), None),
        "model": "glove",
        "architecture": {"hidden_size": 12},
        "workers": 1,
    },
    "fasttext": {
        **dict.fromkeys(("instances", "optimizer", "batch", "validation"), None),
        "model": "fasttext-skip-gram",
        "architecture": {"hidden_size": 12, "buckets": 50},
        "workers": 1,
    },
    "word2vec": {
        **dict.fromkeys(("instances", "optimizer", "batch", "validation"), None),
        "model": "word2vec-skip-gram",
        "architecture": {"hidden_size": 12},
        "workers": 1,
    },
    toy.NAME: {"architecture": {}, "instances": None, "model": "toy", "sequence_length": 20},
}
"""What a tiny run of each system has beside `tests/recipes/sample.py`; None: it has no such key."""
STEPS = 12
CHECKPOINTS = {"every_steps": 5, "keep": 8}
"""The oldest that is kept is of step 5, also where each pass is saved."""


def mapping(system: str, data: Path, out: Path, **over: Any) -> dict[str, Any]:
    """A run of a system, as a configuration file has it."""
    length = "epochs" if RUN_CONFIGS[system].own_loop else "steps"
    made = {**mapping_of(data, out, **{length: STEPS}), **RUNS[system], **over}
    return {key: value for key, value in made.items() if value is not None}


def config_of(system: str, data: Path, out: Path, **over: Any) -> RunConfig:
    """The same as a configuration."""
    return values.from_dict(RUN_CONFIGS[system], mapping(system, data, out, **over))


@pytest.fixture(autouse=True, scope="session")
def with_the_toy() -> Iterator[None]:
    """The toy is in every catalogue."""
    with pytest.MonkeyPatch.context() as patch:
        toy.add_toy(patch)
        for recipe in (pretraining, finetuning):
            patch.setattr(recipe, "choose_precision", lambda *_: ("fp32", 1e11))
        yield


@pytest.fixture(scope="session", params=[*SYSTEMS, toy.NAME])
def name(request: pytest.FixtureRequest) -> str:
    """Of a system."""
    assert request.param in RUNS, f"tests/contract/conftest.py has no tiny run of {request.param}"
    return str(request.param)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Shards of a few thousand tokens, made when first wanted: "text", "pairs" or "stories"."""
    make = {"text": build_data, "pairs": build_pairs, "stories": build_stories}
    return cache(lambda kind: make[kind](tmp_path_factory.mktemp(kind)))


@pytest.fixture(scope="session")
def data(name: str, built: Callable[[str], Path]) -> Path:
    """Those that a system trains on."""
    if name == "memory-network":
        return built("stories")
    return built("pairs" if RUN_CONFIGS[name].reads_pairs else "text")


@pytest.fixture(scope="session")
def shards(data: Path) -> Shards:
    """The same, opened."""
    return open_shards(data)


@pytest.fixture(scope="session")
def system(name: str) -> System:
    """The system."""
    return SYSTEMS[name]


@pytest.fixture(scope="session")
def config(name: str, data: Path) -> RunConfig:
    """A tiny run of it without dropout."""
    made = config_of(name, data, data / "run")
    part = getattr(made, "architecture", None)
    if part is None:
        return made
    off = {field.name: 0.0 for field in fields(part) if "drop" in field.name}
    return replace(made, architecture=replace(part, **off))


@pytest.fixture
def learner(config: RunConfig, shards: Shards) -> Learner:
    """Its learner in float64, every parameter random: zeros would hide a mistake."""
    made = make_learner(config, shards).double()
    generator = torch.Generator().manual_seed(1)
    for parameter in made.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return made


@pytest.fixture(scope="session")
def run(name: str, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of it."""
    out = tmp_path_factory.mktemp(name) / "run"
    train(config_of(name, data, out, checkpoint=CHECKPOINTS))  # type: ignore[arg-type]
    return out
