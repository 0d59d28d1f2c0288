"""The catalogue: each row has a record, and what it does not have is named in the error."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest

from bertwright.config.run import RunConfig
from bertwright.errors import ConfigError
from bertwright.models.catalogue import MODELS, system_and_preset, system_of_model
from bertwright.models.load import continues_texts, load, system_of, system_that, systems_that
from bertwright.models.word_vectors.config import GloveConfig


@dataclass(frozen=True)
class StrayRun(RunConfig):
    """A class of runs that no row names."""


@pytest.mark.parametrize("name", MODELS)
def test_each_row_has_its_record(name: str) -> None:
    assert load(name).row is MODELS[name]


def test_a_system_that_there_is_not() -> None:
    with pytest.raises(ConfigError, match="'t5'"):
        load("t5")


@pytest.mark.parametrize("run", [StrayRun, StrayRun("data", "out")], ids=["class", "run"])
def test_a_run_of_no_system(run: StrayRun) -> None:
    with pytest.raises(ConfigError, match="StrayRun"):
        system_of(run)


def test_systems_that_continue_texts() -> None:
    able = systems_that(continues_texts)
    assert {"bert", "roberta", "gpt2", "awd-lstm", "nnlm", "ngram"} <= {*able}
    assert not {"elmo", "glove", "seq2seq"} & {*able}
    with pytest.raises(ConfigError, match=r"ngram.*glove"):
        system_that(continues_texts, GloveConfig(9, 5), "generation")


def test_the_rows_need_no_torch() -> None:
    program = "import sys, bertwright.models.catalogue; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


@pytest.mark.parametrize("name", [name for name, row in MODELS.items() if row.run is None])
def test_a_system_that_is_only_read_names_the_one_to_train(name: str) -> None:
    trained = MODELS[MODELS[name].instead]
    assert trained.default in trained.presets
    for model in (name, f"{name}-base"):
        with pytest.raises(ConfigError, match=f"{name}.*--model {trained.default}"):
            system_of_model(model)
    with pytest.raises(ConfigError, match=f"--model {trained.default}"):
        system_and_preset(name, "mini")
